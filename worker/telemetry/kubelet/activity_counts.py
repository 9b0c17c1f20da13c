"""An interceptor that counts what the worker's activities did, whoever asked for them: Temporal or the worker itself."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from proto.temporal.activities.requests import PulledImage, PullImage
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from worker.telemetry.kubelet.steps import ContainerTypes, StepCounts

_log: Final = structlog.get_logger(__name__)


class KnownPods(ContainerTypes, Protocol):
    """What is known of the pods."""

    def pulled(self, uid: str, span: tuple[datetime, datetime]) -> None:
        """Note when an image was pulled for a pod."""

    def resized(self, uid: str, span: tuple[datetime, datetime], *, failed: bool) -> None:
        """Note a step of a pod's resize."""


class ActivityCounts(Interceptor):
    """Installs the interceptor."""

    def __init__(self, counts: StepCounts, pods: KnownPods) -> None:
        self._counts, self._pods = counts, pods

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        return _Counting(next, self._counts, self._pods)


class _Counting(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, counts: StepCounts, pods: KnownPods) -> None:
        super().__init__(following)
        self._counts, self._pods = counts, pods

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        request, began = input.args[0] if input.args else None, datetime.now(UTC)
        try:
            answer = await super().execute_activity(input)
        except ApplicationError as error:
            with _log_defects():
                self._counts.failed(request, error.type or "", self._pods)
                self._resized(request, began, failed=True)
            raise
        with _log_defects():
            self._counts.done(request, answer, self._pods)
            if isinstance(request, PullImage) and isinstance(answer, PulledImage) and not answer.present:
                self._pods.pulled(request.pod.uid, (began, datetime.now(UTC)))
            self._resized(request, began, failed=False)
        return answer

    def _resized(self, request: Any, began: datetime, *, failed: bool) -> None:
        if isinstance(request, UpdateContainerResources | UpdatePodSandboxResources):
            self._pods.resized(request.pod.uid, (began, datetime.now(UTC)), failed=failed)


@contextlib.contextmanager
def _log_defects() -> Iterator[None]:
    """Log an error in counting instead of failing the activity."""
    try:
        yield
    except Exception:  # noqa: BLE001 - the activity is not responsible for it
        _log.exception("a defect of tempolet, please report it: an activity was not counted")
