"""Activities that do what a test says, run for the process itself."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import NotDelivered, current_attempt
from activities.execution.attempts import AttachingAttempts
from activities.execution.heartbeat import earlier_details, heartbeating
from activities.execution.in_process import InProcessActivities, InProcessAttempt
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from activities.execution.unexpected import UnexpectedErrors
from proto.temporal import names
from proto.temporal.activities.requests import AwaitPredecessor, ImagesPresent, PulledImage, PullImage, ReadImages
from proto.temporal.pod import PodKey
from worker.events.activity_events import ActivityEventInterceptor

POD = PodKey("default", "web", "uid-1")
PULL = PullImage(POD, "busybox:1.37", "Always")
READ = ReadImages(POD, ("busybox:1.37",))
PULLED = PulledImage("sha256:1", present=True)
LIMIT = timedelta(minutes=5)


@dataclass
class Acting:
    """Activities that do what the test says, in one process."""

    outcomes: list[Any] = field(default_factory=lambda: [PULLED])
    """Of each run, the last one's also of all later ones; None: it hangs."""
    runs: list[tuple[int, Any]] = field(default_factory=list)
    """Number of the attempt, and its request."""
    earlier: list[Any] = field(default_factory=list)
    cancelled: int = 0
    stubborn: bool = False
    """It ignores its first cancellation."""
    told: list[Any] = field(default_factory=list)
    running: RunningActions = field(default_factory=RunningActions)
    events: Mock = field(default_factory=Mock)
    headers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        interceptors = (
            AttachingAttempts(self.running, PresentAttempts()),
            ActivityEventInterceptor(self.events),
            Headers(self.headers),
            UnexpectedErrors(),
        )
        self.activities = InProcessActivities((self.pull, self.read, self.wait), interceptors)

    @activity.defn(name=names.PULL_IMAGE)
    async def pull(self, request: PullImage) -> PulledImage:
        """Do it in the registry of running actions."""
        answer: PulledImage = await self._act(request)
        return answer

    @activity.defn(name=names.READ_IMAGES)
    async def read(self, request: ReadImages) -> ImagesPresent:
        """Do it outside of the registry."""
        answer: ImagesPresent = await self._act(request)
        return answer

    @activity.defn(name=names.AWAIT_PREDECESSOR)
    async def wait(self, request: AwaitPredecessor) -> None:
        """Wait for the stop of the worker."""
        del request
        await current_attempt().stopping()
        assert current_attempt().is_stopping()

    async def _act(self, request: Any) -> Any:
        self.runs.append((current_attempt().number, request))
        self.earlier += earlier_details()
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        async with heartbeating(f"run {len(self.runs)}"):
            if outcome is None:
                await self._hang()
            await asyncio.sleep(11)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _hang(self) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.stubborn or self.cancelled > 1:
                    raise

    def attempt(self, name: str = names.PULL_IMAGE, **given: Any) -> InProcessAttempt:
        """Make an attempt."""
        wanted = {"key": "pull/web", "limit": LIMIT, "heartbeat_timeout": timedelta(seconds=30), **given}
        return InProcessAttempt(
            name=name, workflow_id="pod/n1/default/web/1", asker=("epoch-1", 1), deliver=self.deliver, **wanted
        )

    async def deliver(self, signal: str, value: Any) -> None:
        """Take a signal."""
        if value is None:
            raise NotDelivered
        self.told.append((signal, value))

    def begin(self, attempt: InProcessAttempt, request: object = PULL) -> "asyncio.Task[Any]":
        """Begin an attempt."""
        return asyncio.create_task(self.activities.run(attempt, request))


class Headers(Interceptor):
    """Sees the headers of every activity."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        return _Headers(next, self.seen)


class _Headers(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, seen: list[Any]) -> None:
        super().__init__(following)
        self.seen = seen

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        self.seen.append(dict(input.headers))
        return await super().execute_activity(input)
