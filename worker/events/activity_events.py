"""Stands before every activity of the worker and tells the pod's events of it: when it begins, what came of it."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from worker.events.pod_events import PodEvents

_log: Final = structlog.get_logger(__name__)


class ActivityEventInterceptor(Interceptor):
    """Installs it; the worker's first interceptor, so that it sees what a defect was made of."""

    def __init__(self, events: PodEvents) -> None:
        self._events = events

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Stand before every activity."""
        return _ActivityEvents(next, self._events)


class _ActivityEvents(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, events: PodEvents) -> None:
        super().__init__(following)
        self._events = events

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        request = input.args[0] if input.args else None
        if activity.info().attempt == 1:
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
    """Keep a defect in telling away from what is told of."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever it is, the activity has nothing to do with it
        _log.exception("a defect of tempolet, please report it: an event was not told")
