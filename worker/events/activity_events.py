"""An interceptor that records events for every activity of the worker: its start and its result."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import structlog
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import current_attempt
from worker.events.pod_events import PodEvents

_log: Final = structlog.get_logger(__name__)


class ActivityEventInterceptor(Interceptor):
    """Installs the interceptor; the worker's first one, so that it sees errors as others have converted them."""

    def __init__(self, events: PodEvents) -> None:
        self._events = events

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        return _ActivityEvents(next, self._events)


class _ActivityEvents(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, events: PodEvents) -> None:
        super().__init__(following)
        self._events = events

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        request = input.args[0] if input.args else None
        if current_attempt().number == 1:
            with _log_defects():
                self._events.began(request)
        try:
            answer = await super().execute_activity(input)
        except ApplicationError as error:
            with _log_defects():
                self._events.failed(request, error.type or "", error.message)
            raise
        with _log_defects():
            self._events.done(request, answer)
        return answer


@contextlib.contextmanager
def _log_defects() -> Iterator[None]:
    """Log an error in recording an event instead of failing the activity."""
    try:
        yield
    except Exception:  # noqa: BLE001 - the activity is not responsible for it
        _log.exception("a defect of tempolet, please report it: an event was not recorded")
