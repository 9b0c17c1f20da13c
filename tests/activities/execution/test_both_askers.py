"""Does an action run once, whether Temporal or the process itself asks for it, and whoever asks next?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import Mock

import pytest
from temporalio import activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from activities.execution.attempt import Cancellation
from activities.execution.attempts import AttachingAttempts
from activities.execution.heartbeat import heartbeating
from activities.execution.in_process import InProcessActivities, InProcessAttempt
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from activities.execution.unexpected import UnexpectedErrors
from proto.temporal import names
from proto.temporal.activities.requests import PulledImage, PullImage, RunHook
from proto.temporal.hooks import Hook, HookEnded, HookRetry
from proto.temporal.images import PullSecrets
from proto.temporal.pod import PodKey
from worker.payloads.receiving import ReceivingConverter
from workflows.decide.actions import ACTIONS

pytestmark = pytest.mark.jumping_clock

POD = PodKey("default", "web", "uid-1")
WORKFLOW = "pod/n1/default/web/1"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOOK = RunHook(
    POD,
    "web",
    "web-0",
    Hook.PRE_STOP,
    {"exec": {"command": ["sleep", "60"]}},
    asked_at=FIRST,
    grace=timedelta(seconds=90),
    retry=HookRetry(2, timedelta(seconds=1), 2, timedelta(seconds=9)),
)
PULL = PullImage(POD, "busybox:1.37", "Always")
ACTION = pytest.mark.parametrize(
    ("request_", "answer"),
    [
        pytest.param(HOOK, HookEnded(succeeded=True), id="a-hook"),
        pytest.param(PULL, PulledImage("sha256:1", present=True), id="a-pull"),
    ],
)
FROM = pytest.mark.parametrize("temporal_first", [True, False], ids=["from-temporal", "to-temporal"])


@dataclass
class Process:
    """The activities of one process; both ask for them."""

    answer: Any = None
    runs: list[Any] = field(default_factory=list)
    cancelled: int = 0
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    running: RunningActions = field(default_factory=RunningActions)
    asked: int = 0
    """How many actions the process itself has asked for."""

    def __post_init__(self) -> None:
        self.interceptors = AttachingAttempts(self.running, PresentAttempts()), UnexpectedErrors()
        self.activities = InProcessActivities((self.hook, self.pull), self.interceptors)

    @activity.defn(name=names.RUN_HOOK)
    async def hook(self, request: RunHook) -> HookEnded:
        """Run until the test allows the end."""
        return cast("HookEnded", await self._run(request))

    @activity.defn(name=names.PULL_IMAGE)
    async def pull(self, request: PullImage) -> PulledImage:
        """Run until the test allows the end."""
        return cast("PulledImage", await self._run(request))

    async def _run(self, request: Any) -> Any:
        self.runs.append(request)
        async with heartbeating("at work"):
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return self.answer

    def from_temporal(self, request: Any, **info: Any) -> "Asking":
        """Ask as Temporal does: with a request that was a payload."""
        kind = type(request)
        converter = ReceivingConverter()
        [received] = converter.from_payloads(converter.to_payloads([request]), [kind])
        environment = ActivityEnvironment(client=Mock())
        known: dict[str, Any] = {"activity_type": ACTIONS[kind].name, "activity_id": ACTIONS[kind].key(request)}
        known |= {"workflow_id": WORKFLOW, "workflow_run_id": "run-1", "scheduled_time": FIRST}
        limits = {"heartbeat_timeout": timedelta(seconds=30), "start_to_close_timeout": timedelta(minutes=5)}
        environment.info = replace(environment.info, **(known | limits | info))
        chain: ActivityInboundInterceptor = Calling(cast("Any", None))
        for one in reversed(self.interceptors):
            chain = one.intercept_activity(chain)
        function = self.hook if kind is RunHook else self.pull
        asking = ExecuteActivityInput(fn=function, args=[received], executor=None, headers={})
        task = asyncio.create_task(cast("Any", environment.run(chain.execute_activity, asking)))
        return Asking(task, lambda: environment.cancel(ActivityCancellationDetails(timed_out=True)), environment.cancel)

    def from_process(self, request: Any) -> "Asking":
        """Ask as the process itself does."""
        self.asked += 1
        row = ACTIONS[type(request)]
        attempt = InProcessAttempt(
            name=row.name,
            workflow_id=WORKFLOW,
            key=row.key(request),
            asker=("epoch-1", self.asked),
            limit=timedelta(minutes=5),
            heartbeat_timeout=timedelta(seconds=30),
            deliver=cast("Any", None),
        )
        task = asyncio.create_task(self.activities.run(attempt, request))
        return Asking(task, lambda: attempt.cancel(Cancellation.NOT_FOUND), task.cancel)

    def both(self, request: Any, *, temporal_first: bool) -> "tuple[Callable[[], Asking], Callable[[], Asking]]":
        """Return how the first and the second one asks."""
        askers = (lambda: self.from_temporal(request)), (lambda: self.from_process(request))
        return askers if temporal_first else (askers[1], askers[0])


class Calling(ActivityInboundInterceptor):
    """The end of the chain."""

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Call the activity."""
        return await input.fn(*input.args)


@dataclass
class Asking:
    """One attempt."""

    task: "asyncio.Task[Any]"
    lose: Callable[[], object]
    """Ends it, because somebody else leads the pod now."""
    cancel: Callable[[], object]
    """Ends it, because the action is wanted no more."""

    async def ends(self, how: Callable[[], object]) -> None:
        """End it so."""
        await until_idle()
        how()
        with pytest.raises(asyncio.CancelledError):
            await self.task
        await until_idle()


async def until_idle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@ACTION
@FROM
@pytest.mark.parametrize("lost", [True, False], ids=["the-first-is-lost", "side-by-side"])
async def test_the_next_one_attaches(request_: Any, answer: Any, *, temporal_first: bool, lost: bool) -> None:
    """It runs once, and both have its answer."""
    process = Process(answer)
    first, second = process.both(request_, temporal_first=temporal_first)
    before = first()
    await until_idle()
    if lost:
        await before.ends(before.lose)
    after = second()
    await until_idle()
    process.may_end.set()
    assert await after.task == answer
    assert lost or await before.task == answer
    assert (process.runs, process.cancelled) == ([request_], 0)


@ACTION
@FROM
async def test_the_next_one_gets_the_answer_that_was_kept(request_: Any, answer: Any, *, temporal_first: bool) -> None:
    """The action ended when nobody listened."""
    process = Process(answer)
    first, second = process.both(request_, temporal_first=temporal_first)
    before = first()
    await before.ends(before.lose)
    process.may_end.set()
    await until_idle()
    assert await second().task == answer
    assert process.runs == [request_]


@ACTION
@FROM
async def test_it_goes_back_and_forth(request_: Any, answer: Any, *, temporal_first: bool) -> None:
    """Each is lost in its turn."""
    process = Process(answer)
    askers = process.both(request_, temporal_first=temporal_first)
    for turn in range(6):
        asking = askers[turn % 2]()
        await asking.ends(asking.lose)
    process.may_end.set()
    assert await askers[0]().task == answer
    assert process.runs == [request_]


@ACTION
@FROM
async def test_an_answer_that_is_recorded_is_given_to_nobody_else(
    request_: Any, answer: Any, *, temporal_first: bool
) -> None:
    """Whoever asks then has decided anew."""
    process = Process(answer)
    process.may_end.set()
    first, second = process.both(request_, temporal_first=temporal_first)
    await first().task
    process.running.settled(WORKFLOW, ACTIONS[type(request_)].key(request_))
    await until_idle()
    await second().task
    assert len(process.runs) == 2


@ACTION
@FROM
async def test_a_late_cancel_of_the_first_leaves_the_work_to_the_second(
    request_: Any, answer: Any, *, temporal_first: bool
) -> None:
    """A run of before learns late that it leads no more."""
    process = Process(answer)
    first, second = process.both(request_, temporal_first=temporal_first)
    before = first()
    await until_idle()
    after = second()
    await before.ends(before.cancel)
    process.may_end.set()
    assert await after.task == answer
    assert (len(process.runs), process.cancelled) == (1, 0)


@ACTION
@FROM
async def test_the_second_may_cancel_what_the_first_began(request_: Any, answer: Any, *, temporal_first: bool) -> None:
    """The pod is deleted after the switch."""
    process = Process(answer)
    first, second = process.both(request_, temporal_first=temporal_first)
    before = first()
    await before.ends(before.lose)
    after = second()
    await after.ends(after.cancel)
    assert (len(process.runs), process.cancelled, len(process.running)) == (1, 1, 0)


@FROM
async def test_another_pull_with_the_same_key_is_another_work(*, temporal_first: bool) -> None:
    """It may use other secrets: the one before ends first."""
    process = Process("done")
    first, _ = process.both(PULL, temporal_first=temporal_first)
    _, second = process.both(replace(PULL, secrets=PullSecrets(("robot",))), temporal_first=temporal_first)
    before = first()
    await before.ends(before.lose)
    after = second()
    await until_idle()
    process.may_end.set()
    await after.task
    assert ([one.secrets.names for one in process.runs], process.cancelled) == ([(), ("robot",)], 1)
