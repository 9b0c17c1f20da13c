"""Does an activity that the process itself asks for run, fail and end as one that Temporal asks for?"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from activities.execution.attempt import Cancellation, NotDelivered
from activities.execution.errors import retryable_failure
from activities.execution.in_process import InProcessActivities
from proto.temporal import names
from proto.temporal.activities.requests import AwaitPredecessor, PullImage
from tests.activities.execution.acting import LIMIT, POD, PULL, PULLED, READ, Acting

pytestmark = pytest.mark.jumping_clock


async def until_idle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def failed(running: "asyncio.Task[Any]") -> ApplicationError:
    """Return the failure that an attempt ends with."""
    with pytest.raises(ApplicationError) as failure:
        await running
    return failure.value


async def test_the_next_try_passes_the_same_interceptors() -> None:
    """Its start is recorded once, its failure and its end each; it knows the details of the first try."""
    acting = Acting(outcomes=[retryable_failure("RuntimeUnavailable", "away"), PULLED])
    first = acting.attempt()
    failure = await failed(acting.begin(first))
    assert (failure.type, failure.non_retryable) == ("RuntimeUnavailable", False)
    second = first.again()
    assert await acting.begin(second) == PULLED
    assert acting.runs == [(1, PULL), (2, PULL)]
    assert (first.said, second.earlier, acting.earlier) == (("run 1",), ("run 1",), ["run 1"])
    acting.events.began.assert_called_once_with(PULL)
    acting.events.failed.assert_called_once_with(PULL, "RuntimeUnavailable", "away")
    acting.events.done.assert_called_once_with(PULL, PULLED)


async def test_a_read_knows_the_details_without_the_registry() -> None:
    """They are in the attempt; a try that says nothing leaves those before."""
    acting = Acting(outcomes=[retryable_failure("RuntimeUnavailable", "away")])
    first = acting.attempt(names.READ_IMAGES)
    await failed(acting.begin(first, READ))
    silent = first.again()
    assert silent.again().earlier == ("run 1",)
    await failed(acting.begin(silent, READ))
    assert acting.earlier == ["run 1"]
    assert silent.said == ("run 2",)


@pytest.mark.parametrize("name", [names.PULL_IMAGE, names.READ_IMAGES])
async def test_a_defect_is_not_retried(name: str) -> None:
    """It says what happened."""
    acting = Acting(outcomes=[KeyError("image")])
    failure = await failed(acting.begin(acting.attempt(name), PULL if name == names.PULL_IMAGE else READ))
    assert (failure.type, failure.non_retryable) == ("UnexpectedError", True)
    assert "KeyError: 'image'" in failure.message
    recorded = acting.events.failed.call_args.args  # by an interceptor further out
    assert recorded[1:] == ("UnexpectedError", failure.message)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        pytest.param("NoSuchActivity", PULL, id="a-name-that-is-not-hosted"),
        pytest.param(names.PULL_IMAGE, READ, id="another-activitys-request"),
        pytest.param(names.PULL_IMAGE, object(), id="no-request"),
        pytest.param(names.PULL_IMAGE, PullImage(POD, "\ud800", "Always"), id="what-json-cannot-carry"),
    ],
)
async def test_what_cannot_be_asked_for_is_a_failure_too(name: str, request_: object) -> None:
    """No exception ends whoever asks."""
    failure = await failed(Acting().begin(Acting().attempt(name), request_))
    assert (failure.type, failure.non_retryable) == ("UnexpectedError", True)


@pytest.mark.parametrize("name", [names.PULL_IMAGE, names.READ_IMAGES])
async def test_a_cancelled_caller_ends_it(name: str) -> None:
    """As a workflow that cancels an action."""
    acting = Acting(outcomes=[None])
    attempt = acting.attempt(name)
    running = acting.begin(attempt, PULL if name == names.PULL_IMAGE else READ)
    await until_idle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until_idle()
    assert attempt.cancellation() is Cancellation.CANCEL_REQUESTED
    assert (acting.cancelled, len(acting.running)) == (1, 0)


@pytest.mark.parametrize("why", [Cancellation.NOT_FOUND, Cancellation.PAUSED, Cancellation.TIMED_OUT])
async def test_an_attempt_may_end_before_its_work(why: Cancellation) -> None:
    """The next one attaches; the first reason counts."""
    acting = Acting()
    first = acting.attempt()
    running = acting.begin(first)
    await until_idle()
    first.cancel(why)
    first.cancel(Cancellation.CANCEL_REQUESTED)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await acting.begin(acting.attempt()) == PULLED
    assert (len(acting.runs), first.cancellation()) == (1, why)


async def test_one_that_is_cancelled_first_does_nothing() -> None:
    """Its caller has not run it yet."""
    acting = Acting()
    attempt = acting.attempt()
    attempt.cancel(Cancellation.CANCEL_REQUESTED)
    with pytest.raises(asyncio.CancelledError):
        await acting.begin(attempt)
    assert acting.runs == []


async def test_a_hanging_one_says_so_shortly_before_its_limit() -> None:
    """What it does goes on, and the next attempt attaches to it."""
    acting, clock = Acting(outcomes=[None]), asyncio.get_running_loop()
    begun = clock.time()
    failure = await failed(acting.begin(acting.attempt()))
    assert (failure.type, failure.non_retryable) == ("StepTimedOut", True)
    assert failure.message == "run 1: no answer within 295 s; it is waited for again"
    assert LIMIT - timedelta(seconds=6) < timedelta(seconds=clock.time() - begun) < LIMIT
    assert acting.cancelled == 0
    next_one = acting.begin(acting.attempt())
    await until_idle()
    assert len(acting.runs) == 1
    next_one.cancel()
    await until_idle()
    assert acting.cancelled == 1


async def test_one_that_ignores_its_cancellation_ends_at_the_limit() -> None:
    """Temporal's own limit would end it, too, and try again."""
    acting, clock = Acting(outcomes=[None], stubborn=True), asyncio.get_running_loop()
    begun = clock.time()
    failure = await failed(acting.begin(acting.attempt(names.READ_IMAGES), READ))
    assert (failure.type, failure.non_retryable) == ("StepTimedOut", False)
    assert timedelta(seconds=clock.time() - begun) < LIMIT + timedelta(seconds=1)
    await until_idle()
    assert acting.cancelled == 2


async def test_a_cancelled_callee_does_not_look_like_a_cancelled_caller() -> None:
    """A pull that several share may be cancelled by its other caller; whoever asks tries again."""
    acting = Acting(outcomes=[asyncio.CancelledError()])
    failure = await failed(acting.begin(acting.attempt(names.READ_IMAGES), READ))
    assert (failure.type, failure.non_retryable) == ("Superseded", False)


async def test_the_activity_gets_a_copy() -> None:
    """What it changes in it is not changed for whoever asks; types are those that Temporal would give it."""
    seen: list[Any] = []

    @activity.defn(name=names.PULL_IMAGE)
    async def spoil(request: dict[str, Any]) -> None:
        seen.append(dict(request))
        request["args"].append("spoilt")

    asked = {"args": ("sh", "-c")}
    await InProcessActivities([spoil], []).run(Acting().attempt(), asked)
    assert seen == [{"args": ["sh", "-c", "spoilt"]}]
    assert asked == {"args": ("sh", "-c")}


async def test_a_part_of_a_decision_is_left_alone() -> None:
    """A read within it is nobody's action."""
    acting = Acting()
    assert await acting.begin(acting.attempt(is_local=True)) == PULLED
    assert len(acting.running) == 0


async def test_interceptors_get_the_headers() -> None:
    """Those that Temporal's would have."""
    acting, ticket = Acting(), Payload(data=b"ticket")
    await acting.begin(acting.attempt(headers={"ticket": ticket}))
    assert acting.headers == [{"ticket": ticket}]


async def test_what_it_tells_is_delivered() -> None:
    """To whoever made the attempt."""
    acting = Acting()
    attempt = acting.attempt()
    await attempt.tell(names.PROBE_VERDICT, "ready")
    assert acting.told == [(names.PROBE_VERDICT, "ready")]
    with pytest.raises(NotDelivered):
        await attempt.tell(names.PROBE_VERDICT, None)


async def test_the_stop_of_the_worker() -> None:
    """Who waits for it ends by itself, others are cancelled after a while, and nothing begins any more."""
    acting = Acting(outcomes=[None])
    waiting = acting.begin(acting.attempt(names.AWAIT_PREDECESSOR, key="predecessor"), AwaitPredecessor(POD))
    hanging = acting.begin(acting.attempt())
    await until_idle()
    await acting.activities.stop(timedelta(seconds=5))
    assert await waiting is None
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert (acting.cancelled, len(acting.running)) == (1, 0)
    failure = await failed(acting.begin(acting.attempt()))
    assert (failure.type, failure.non_retryable) == ("WorkerStopping", False)


async def test_a_stop_with_nothing_under_way() -> None:
    """It waits for nothing."""
    await Acting().activities.stop(timedelta(days=1))
