"""Do attempts of one action share one run of it, and does none ever get the answer of another action?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from activities.execution import running_actions
from activities.execution.attempts import AttachingAttempts
from activities.execution.errors import non_retryable_failure, retryable_failure
from activities.execution.heartbeat import earlier_details, heartbeating
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from proto.temporal import names

pytestmark = pytest.mark.jumping_clock

POD = "pod/n1/default/web/1"
KEY = "hook/web/postStart/web-0"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LATER = FIRST + timedelta(seconds=7)
LOST = pytest.mark.parametrize(
    "why",
    [
        pytest.param(ActivityCancellationDetails(timed_out=True), id="temporal-was-away"),
        pytest.param(ActivityCancellationDetails(not_found=True), id="its-run-continued-as-new"),
        pytest.param(ActivityCancellationDetails(paused=True), id="an-operator-paused-it"),
        pytest.param(ActivityCancellationDetails(reset=True), id="an-operator-reset-it"),
    ],
)


@dataclass
class Process:
    """The activities of one process, all with one implementation that the test controls."""

    running: RunningActions = field(default_factory=RunningActions)
    present: PresentAttempts = field(default_factory=PresentAttempts)
    runs: list[Any] = field(default_factory=list)
    """What each run was asked for."""
    earlier: list[Any] = field(default_factory=list)
    """What each run knew of the try before."""
    cancelled: int = 0
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[Any] = field(default_factory=lambda: ["done"])
    beats: list[Any] = field(default_factory=list)
    describe: AsyncMock = field(
        default_factory=lambda: AsyncMock(return_value=Mock(status=WorkflowExecutionStatus.RUNNING))
    )
    """Temporal's answer about the newest run."""

    async def execute(self, asked: Any) -> Any:
        """Run the action; it ends when the test allows it."""
        self.runs.append(asked)
        self.earlier += earlier_details()
        async with heartbeating(f"run {len(self.runs)}"):
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def attempt(self, asked: Any = "request", kind: str = names.RUN_HOOK, **info: Any) -> "Attempt":
        """Begin an attempt."""
        temporal = Mock(get_workflow_handle=Mock(return_value=Mock(describe=self.describe)))
        environment = ActivityEnvironment(client=temporal)
        given = {"activity_type": kind, "activity_id": KEY, "workflow_id": POD, "workflow_run_id": "run-1"}
        limits = {"heartbeat_timeout": timedelta(seconds=30), "start_to_close_timeout": timedelta(minutes=5)}
        environment.info = replace(environment.info, **(given | limits | {"scheduled_time": FIRST} | info))
        environment.on_heartbeat = self.beats.append
        chain = AttachingAttempts(self.running, self.present).intercept_activity(Inner(self.execute))
        asking = ExecuteActivityInput(fn=lambda: None, args=[asked], executor=None, headers={})
        return Attempt(environment, asyncio.create_task(cast("Any", environment.run(chain.execute_activity, asking))))


class Inner(ActivityInboundInterceptor):
    """The activity behind the interceptor."""

    def __init__(self, execute: Callable[[Any], Any]) -> None:
        self.execute = execute

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Run it."""
        return await self.execute(input.args[0])


@dataclass
class Attempt:
    """One attempt of an activity."""

    environment: ActivityEnvironment
    task: "asyncio.Task[Any]"

    async def lost(self, why: ActivityCancellationDetails) -> None:
        """End it as Temporal does."""
        await until_idle()
        self.environment.cancel(why)
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def until_idle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def process() -> Process:
    """Return a process in which nothing runs yet."""
    return Process()


async def ended(process: Process, *attempts: Attempt) -> list[Any]:
    """Let the action end; returns what the attempts answer."""
    await until_idle()
    process.may_end.set()
    return [await one.task for one in attempts]


@LOST
async def test_a_hook_whose_attempt_was_lost_runs_once(process: Process, why: ActivityCancellationDetails) -> None:
    """The next attempt attaches to it, and has its answer."""
    await process.attempt().lost(why)
    second = process.attempt(attempt=2)
    assert await ended(process, second) == ["done"]
    assert (len(process.runs), process.cancelled) == (1, 0)


async def test_two_attempts_side_by_side_share_one_run(process: Process) -> None:
    """As after a suspended worker, whose first attempt does not know that it is over."""
    assert await ended(process, process.attempt(), process.attempt(attempt=2)) == ["done", "done"]
    assert len(process.runs) == 1


@LOST
async def test_an_answer_that_nobody_heard_is_kept(process: Process, why: ActivityCancellationDetails) -> None:
    """The hook ended while Temporal was away."""
    await process.attempt().lost(why)
    await ended(process)
    await until_idle()
    assert await process.attempt(attempt=2).task == "done"
    assert len(process.runs) == 1


async def test_the_run_after_a_continue_as_new_gets_it_too(process: Process) -> None:
    """It asks for the same instance in an action of its own."""
    await process.attempt().lost(ActivityCancellationDetails(not_found=True))
    await ended(process)
    await until_idle()
    assert await process.attempt(workflow_run_id="run-2", scheduled_time=LATER).task == "done"
    assert len(process.runs) == 1


async def test_a_new_action_with_an_old_key_runs(process: Process) -> None:
    """The run has folded the first answer, else it would not ask in another action: a preStart hook is tried again."""
    process.answers = [non_retryable_failure("HookFailed", "exit code 1"), "done"]
    process.may_end.set()
    with pytest.raises(ApplicationError, match="exit code 1"):
        await process.attempt().task
    assert await process.attempt(scheduled_time=LATER).task == "done"
    assert len(process.runs) == 2


async def test_a_folded_answer_is_given_to_no_later_run(process: Process) -> None:
    """The state that was kept has it."""
    await ended(process, process.attempt())
    process.running.received(POD, "run-1", KEY)
    process.running.state_kept(POD, "run-1")
    await until_idle()
    assert len(process.running) == 0
    await process.attempt(workflow_run_id="run-2", scheduled_time=LATER).task
    assert len(process.runs) == 2


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param((), id="no-state-was-kept"),
        pytest.param([(POD, "run-2")], id="another-run's-state"),
        pytest.param([("pod/n1/default/db/2", "run-1")], id="another-workflow's-state"),
    ],
)
async def test_an_answer_that_no_kept_state_has_is_given_to_whoever_leads_next(
    process: Process, kept: list[tuple[str, str]]
) -> None:
    """The run that received it may never keep its state; no history owes the answer any more."""
    await ended(process, process.attempt())
    await until_idle()
    assert process.running.unsettled() == [(POD, KEY)]
    process.running.received(POD, "run-1", KEY)
    for one in kept:
        process.running.state_kept(*one)
    await until_idle()
    assert process.running.unsettled() == []
    assert await process.attempt(workflow_run_id="run-2", scheduled_time=LATER).task == "done"
    assert len(process.runs) == 1


async def test_a_settled_answer_is_given_to_nobody(process: Process) -> None:
    """The process that leads has it on its disk."""
    await ended(process, process.attempt())
    process.running.settled(POD, KEY)
    await until_idle()
    assert len(process.running) == 0


async def test_settling_does_not_touch_what_runs(process: Process) -> None:
    """It may be another action with that key."""
    first = process.attempt()
    await until_idle()
    process.running.settled(POD, KEY)
    process.running.received(POD, "run-1", KEY)
    process.running.state_kept(POD, "run-1")
    assert await ended(process, first, process.attempt(attempt=2)) == ["done", "done"]
    assert len(process.runs) == 1


@pytest.mark.parametrize("kind", [names.START_CONTAINER, names.RUN_POD_SANDBOX])
async def test_a_state_is_looked_up_again(process: Process, kind: str) -> None:
    """A container that was started before an outage may have ended in it."""
    process.answers = ["running", "exited"]
    await process.attempt(kind=kind).lost(ActivityCancellationDetails(timed_out=True))
    await ended(process)
    await until_idle()
    assert await process.attempt(kind=kind, attempt=2).task == "exited"


@pytest.mark.parametrize("kind", [names.READ_POD_RUNTIME, names.READ_IMAGES, names.AWAIT_PREDECESSOR])
async def test_a_read_is_never_shared(process: Process, kind: str) -> None:
    """What an earlier one saw may have changed."""
    assert await ended(process, process.attempt(kind=kind), process.attempt(kind=kind, attempt=2)) == ["done", "done"]
    assert len(process.runs) == 2


@pytest.mark.parametrize(
    "why",
    [
        pytest.param(ActivityCancellationDetails(cancel_requested=True), id="its-workflow-cancels-it"),
        pytest.param(ActivityCancellationDetails(worker_shutdown=True), id="the-worker-stops"),
    ],
)
async def test_what_is_wanted_no_more_is_cancelled(process: Process, why: ActivityCancellationDetails) -> None:
    """And nothing of it is kept."""
    await process.attempt().lost(why)
    assert (process.cancelled, len(process.running)) == (1, 0)


@pytest.mark.parametrize(
    ("described", "cancelled"),
    [
        pytest.param(Mock(status=WorkflowExecutionStatus.COMPLETED), 1, id="its-workflow-has-completed"),
        pytest.param(Mock(status=WorkflowExecutionStatus.RUNNING), 0, id="another-run-is-open"),
        pytest.param(Mock(status=WorkflowExecutionStatus.TERMINATED), 0, id="somebody-ended-it"),
        pytest.param(RPCError("away", RPCStatusCode.UNAVAILABLE, b""), 0, id="temporal-is-away"),
        pytest.param(ValueError("8"), 0, id="it-is-paused"),
    ],
)
async def test_a_pull_ends_with_its_pod(process: Process, described: Any, cancelled: int) -> None:
    """The workflow of a pod that is gone waits for no end, so its attempt learns of no cancel but of no workflow."""
    process.describe.side_effect = [described]
    await process.attempt(kind=names.PULL_IMAGE).lost(ActivityCancellationDetails(not_found=True))
    assert (process.cancelled, len(process.running)) == (cancelled, 1 - cancelled)
    process.may_end.set()


async def test_a_cancel_of_an_old_attempt_leaves_the_work_to_the_newer_one(process: Process) -> None:
    """The same hook was asked for again by the run after a reset."""
    old = process.attempt()
    await until_idle()
    new = process.attempt(workflow_run_id="run-2")
    await old.lost(ActivityCancellationDetails(cancel_requested=True))
    assert await ended(process, new) == ["done"]
    assert (len(process.runs), process.cancelled) == (1, 0)


async def test_other_work_with_the_same_key_takes_its_place(process: Process) -> None:
    """A start that hangs does not run beside the stop of the same container."""
    start = process.attempt("start", names.START_CONTAINER)
    await until_idle()
    stop = process.attempt("stop", names.STOP_CONTAINER, scheduled_time=LATER)
    await until_idle()
    assert (process.runs, process.cancelled) == (["start", "stop"], 1)
    assert await ended(process, stop) == ["done"]
    with pytest.raises(ApplicationError, match="has taken its place"):
        await start.task


async def test_two_requests_for_one_hook_are_one_work(process: Process) -> None:
    """A run that decides again asks with another time and reason."""
    assert await ended(process, process.attempt("at 12:00"), process.attempt("at 12:05", workflow_run_id="run-2"))
    assert process.runs == ["at 12:00"]


async def test_a_hanging_step_says_so_and_goes_on(process: Process) -> None:
    """The failure reaches the status; the next try finds the work that was begun."""
    with pytest.raises(ApplicationError, match=r"run 1: no answer within 295 s; it is waited for again") as hung:
        await process.attempt(kind=names.MOUNT_VOLUMES).task
    assert (hung.value.type, hung.value.non_retryable) == ("StepTimedOut", True)
    assert await ended(process, process.attempt(kind=names.MOUNT_VOLUMES, scheduled_time=LATER)) == ["done"]
    assert (len(process.runs), process.cancelled) == (1, 0)


async def test_a_hanging_read_says_so_and_ends(process: Process) -> None:
    """Nothing is left to wait for."""
    with pytest.raises(ApplicationError, match="no answer within 295 s"):
        await process.attempt(kind=names.READ_POD_RUNTIME).task
    assert process.cancelled == 1


async def test_a_failure_that_temporal_retries_is_tried_again(process: Process) -> None:
    """The next try knows what the last one said, although Temporal never heard it."""
    process.answers = [retryable_failure("HookFailed", "exit code 1"), "done"]
    process.may_end.set()
    with pytest.raises(ApplicationError):
        await process.attempt().task
    assert await process.attempt(attempt=2).task == "done"
    assert process.earlier == ["run 1"]


async def test_each_attempt_beats_for_itself(process: Process) -> None:
    """The second attempt would count as lost without its own heartbeats."""
    await process.attempt().lost(ActivityCancellationDetails(timed_out=True))
    process.beats.clear()
    second = process.attempt(attempt=2)
    await asyncio.sleep(25)
    assert process.beats == ["run 1", "run 1"]
    await ended(process, second)


async def test_a_local_activity_is_left_alone(process: Process) -> None:
    """It is part of a workflow task."""
    await ended(process, process.attempt(is_local=True))
    assert len(process.running) == 0


async def test_what_nobody_asks_for_is_dropped_in_the_end(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook of a pod that is gone, and answers beyond any number of actions that a node can have."""
    await process.attempt().lost(ActivityCancellationDetails(not_found=True))
    monkeypatch.setattr(running_actions, "UNHEARD_SECONDS", -1.0)
    other = process.attempt(activity_id="another")
    await until_idle()
    assert process.cancelled == 1
    await ended(process, other)
    monkeypatch.undo()
    monkeypatch.setattr(running_actions, "ANSWERS", 3)
    for number in range(6):
        await process.attempt(activity_id=f"hook/{number}").task
    assert len(process.running) == 4  # the newest one was added after the last look


async def test_only_present_attempts_count_as_present(process: Process) -> None:
    """Temporal is compared with them."""
    first = process.attempt()
    await until_idle()
    assert process.present.has(POD, KEY, "run-1", 1)
    assert not process.present.has(POD, KEY, "run-1", 2)
    assert process.present.seconds_without(POD, KEY, since=0) == 0
    await ended(process, first)
    assert not process.present.has(POD, KEY, "run-1", 1)
    assert process.present.seconds_without(POD, KEY, since=0) < 60
    assert process.present.seconds_without(POD, "another", since=0) > 60


def test_the_table_names_activities() -> None:
    """A renamed activity would silently be shared."""
    from activities.execution import attempts  # noqa: PLC0415 - only its sets are looked at

    known = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert known >= attempts.ENDLESS | attempts.READS | attempts.LOOKS_AGAIN | attempts.NAMED_BY_KEY
