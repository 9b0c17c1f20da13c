"""Does an attempt of Temporal's say what Temporal's SDK says, whoever asks it?"""

import asyncio
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import AsyncActivityCancelledError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.execution.attempt import (
    Attempt,
    Cancellation,
    NotDelivered,
    WorkflowGone,
    attempting,
    current_attempt,
)

Details = ActivityCancellationDetails


async def attempt_in(environment: ActivityEnvironment) -> Attempt:
    """Return the attempt of an activity in this environment."""

    async def ask() -> Attempt:
        return current_attempt()

    return await environment.run(ask)


async def test_it_has_what_the_sdk_knows() -> None:
    """An action's tries have one asker."""
    environment = ActivityEnvironment()
    told: dict[str, Any] = {
        "activity_type": "PullImage",
        "activity_id": "image/busybox",
        "workflow_id": "pod/1",
        "attempt": 3,
    }
    limits: dict[str, Any] = {"start_to_close_timeout": timedelta(hours=1), "heartbeat_timeout": timedelta(seconds=30)}
    environment.info = replace(environment.info, heartbeat_details=["at work"], is_local=True, **(told | limits))
    attempt = await attempt_in(environment)
    assert (attempt.name, attempt.key, attempt.workflow_id, attempt.number) == (*list(told.values())[:3], 3)
    assert attempt.asker == (environment.info.workflow_run_id, environment.info.scheduled_time)
    assert (attempt.limit, attempt.heartbeat_timeout) == tuple(limits.values())
    assert (attempt.earlier, attempt.is_local) == (["at work"], True)


@pytest.mark.parametrize(
    ("details", "why"),
    [
        pytest.param(Details(cancel_requested=True), Cancellation.CANCEL_REQUESTED, id="its-workflow"),
        pytest.param(Details(worker_shutdown=True), Cancellation.WORKER_SHUTDOWN, id="the-worker-stops"),
        pytest.param(Details(not_found=True), Cancellation.NOT_FOUND, id="its-run-has-ended"),
        pytest.param(Details(paused=True), Cancellation.PAUSED, id="paused"),
        pytest.param(Details(reset=True), Cancellation.RESET, id="reset"),
        pytest.param(Details(timed_out=True), Cancellation.TIMED_OUT, id="timed-out"),
        pytest.param(
            Details(paused=True, cancel_requested=True),
            Cancellation.PAUSED | Cancellation.CANCEL_REQUESTED,
            id="two-reasons",
        ),
        pytest.param(Details(), Cancellation.UNKNOWN, id="no-reason"),
        pytest.param(None, Cancellation.UNKNOWN, id="a-heartbeat-that-failed"),
    ],
)
async def test_why_it_was_cancelled(details: Any, why: Cancellation) -> None:
    """Any reason counts as a cancellation; before it, there is none."""
    environment, seen = ActivityEnvironment(), []

    async def act() -> None:
        attempt = current_attempt()
        seen.append(attempt.cancellation())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(attempt.cancellation())

    task = asyncio.ensure_future(environment.run(act))
    await asyncio.sleep(0.01)
    environment.cancel(details)
    await task
    assert seen == [Cancellation.NONE, why]
    assert not seen[0]
    assert seen[1]


async def test_it_may_be_used_in_any_context() -> None:
    """A work sends what it says for the attempts that wait for it."""
    environment, said = ActivityEnvironment(), []
    environment.on_heartbeat = lambda *details: said.append(details)

    async def use(attempt: Attempt) -> None:
        attempt.say("at work")
        attempt.say()
        assert not attempt.is_stopping()
        stopping = asyncio.ensure_future(attempt.stopping())
        await asyncio.sleep(0.01)
        environment.worker_shutdown()
        await stopping
        assert attempt.is_stopping()

    async def act() -> None:
        await asyncio.create_task(use(current_attempt()), context=Context())

    await environment.run(act)
    assert said == [("at work",), ()]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        pytest.param(None, None, id="delivered"),
        pytest.param(RPCError("gone", RPCStatusCode.NOT_FOUND, b""), WorkflowGone, id="gone"),
        pytest.param(RPCError("away", RPCStatusCode.UNAVAILABLE, b""), NotDelivered, id="away"),
        pytest.param(RPCError("slow", RPCStatusCode.DEADLINE_EXCEEDED, b""), NotDelivered, id="slow"),
    ],
)
async def test_what_temporal_does_not_take(error: Exception | None, raised: type[Exception] | None) -> None:
    """Signals and details that are stored."""
    workflow = Mock(signal=AsyncMock(side_effect=error))
    handle = Mock(heartbeat=AsyncMock(side_effect=error))
    client = Mock(
        get_workflow_handle=Mock(return_value=workflow),
        get_async_activity_handle=Mock(return_value=Mock(with_context=Mock(return_value=handle))),
    )
    attempt = await attempt_in(ActivityEnvironment(client=client))
    for sent in (attempt.tell("verdict", "ready"), attempt.keep("at work")):
        if raised is None:
            await sent
        else:
            with pytest.raises(raised):
                await sent
    workflow.signal.assert_called_once_with("verdict", "ready")
    handle.heartbeat.assert_called_once_with("at work")
    handle.heartbeat.side_effect = AsyncActivityCancelledError()
    await attempt.keep("stored although it is paused")


async def test_an_attempt_of_the_process_comes_before_temporals() -> None:
    """Within its block, and not after it."""
    given: Any = Mock(spec=Attempt)

    async def act() -> None:
        with attempting(given):
            assert current_attempt() is given
        assert current_attempt() is not given

    await ActivityEnvironment().run(act)
    with attempting(given):
        assert current_attempt() is given
    with pytest.raises(RuntimeError, match="Not in activity context"):
        current_attempt()
