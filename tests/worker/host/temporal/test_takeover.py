"""Does a starting worker take over what it can, whatever Temporal answers about one workflow or about all of them?"""

import asyncio
from typing import Any, Self

import pytest
from temporalio.api.enums.v1 import PendingActivityState, WorkflowExecutionStatus
from temporalio.api.workflow.v1 import PendingActivityInfo, WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
)
from temporalio.service import RPCError, RPCStatusCode

from worker.host.temporal import takeover
from worker.host.temporal.first_look import FirstLook
from worker.host.temporal.takeover import TakenOver, take_over
from worker.temporal.call_budget import CallBudget

STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


class FakeTemporal:
    """Temporal with one attempt of an earlier worker in each workflow."""

    namespace = "tempolet"

    def __init__(self, listed: list[str] | Exception, broken: dict[str, Exception] | None = None) -> None:
        self.listed, self.broken = listed, broken or {}
        self.freed: list[str] = []
        self.state = STARTED

    @property
    def workflow_service(self) -> Self:
        """Return itself."""
        return self

    async def list_workflow_executions(self, _: ListWorkflowExecutionsRequest, **__: Any) -> Any:
        """List what visibility has, paused ones with the SDK's unknown status."""
        if isinstance(self.listed, Exception):
            raise self.listed
        found = []
        for one in self.listed:
            info = WorkflowExecutionInfo(status=WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_PAUSED)
            info.execution.workflow_id = one
            found.append(info)
        return ListWorkflowExecutionsResponse(executions=found)

    async def describe_workflow_execution(self, asked: DescribeWorkflowExecutionRequest, **_: Any) -> Any:
        """Describe a workflow, or fail as the test says."""
        if error := self.broken.get(asked.execution.workflow_id):
            raise error
        pending = PendingActivityInfo(activity_id="probe/web", state=self.state, last_worker_identity="an earlier one")
        return DescribeWorkflowExecutionResponse(pending_activities=[pending])


class FakeHandle:
    """Notes what is failed."""

    def __init__(self, temporal: FakeTemporal, workflow_id: str) -> None:
        self._temporal, self._workflow_id = temporal, workflow_id

    async def fail(self, _: Exception) -> None:
        """Note it."""
        self._temporal.freed.append(self._workflow_id)


def look_at(temporal: FakeTemporal) -> FirstLook:
    """Look at what Temporal has."""
    return FirstLook(temporal, "n", CallBudget())  # type: ignore[arg-type]  # plays Client


@pytest.fixture(autouse=True)
def handles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let failed attempts be noted."""
    monkeypatch.setattr(takeover, "activity_of", lambda client, workflow_id, _: FakeHandle(client, workflow_id))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RPCError("invalid search attribute: PodNode", RPCStatusCode.INVALID_ARGUMENT, b""), id="unknown"),
        pytest.param(RPCError("away", RPCStatusCode.UNAVAILABLE, b""), id="away"),
        pytest.param(RPCError("too many", RPCStatusCode.RESOURCE_EXHAUSTED, b""), id="throttled"),
        pytest.param(RuntimeError("cannot connect"), id="not-connected"),
    ],
)
async def test_a_worker_starts_without_visibility(error: Exception) -> None:
    """It knows the workflows of its own snapshots."""
    temporal = FakeTemporal(error)
    assert await take_over(look_at(temporal), "me", ["node/n", "pod/n/default/web/u"]) == TakenOver(2, frozenset())
    assert sorted(temporal.freed) == ["node/n", "pod/n/default/web/u"]


@pytest.mark.parametrize(
    ("state", "freed"),
    [
        pytest.param(STARTED, 1, id="started"),
        pytest.param(PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED, 1, id="started-and-to-be-paused"),
        pytest.param(PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED, 0, id="paused"),
        pytest.param(PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED, 0, id="scheduled"),
    ],
)
async def test_attempts_of_an_earlier_worker_are_failed_in_these_states(
    state: PendingActivityState.ValueType, freed: int
) -> None:
    """One that is to be paused would otherwise stay with the dead worker until its heartbeat is missed."""
    temporal = FakeTemporal([])
    temporal.state = state
    assert await take_over(look_at(temporal), "me", ["pod/n/default/web/u"]) == TakenOver(freed, frozenset())


@pytest.mark.jumping_clock
async def test_a_temporal_that_is_slow_keeps_no_worker_from_starting() -> None:
    """What it has not said in time is asked for again."""

    class Slow(FakeTemporal):
        async def describe_workflow_execution(self, asked: DescribeWorkflowExecutionRequest, **more: Any) -> Any:
            if asked.execution.workflow_id == "slow":
                await asyncio.Event().wait()
            return await super().describe_workflow_execution(asked, **more)

    temporal = Slow([])
    taken = await take_over(look_at(temporal), "me", ["slow", "pod/n/default/web/u"])
    assert taken == TakenOver(1, frozenset({"slow"}))
    assert temporal.freed == ["pod/n/default/web/u"]


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        pytest.param(RPCError("gone", RPCStatusCode.NOT_FOUND, b""), [], id="gone"),
        pytest.param(RPCError("away", RPCStatusCode.UNAVAILABLE, b""), ["odd"], id="away"),
        pytest.param(ValueError("8"), ["odd"], id="a-value"),
        pytest.param(TypeError("odd"), ["odd"], id="a-type"),
    ],
)
async def test_one_odd_workflow_stops_no_other(error: Exception, unknown: list[str]) -> None:
    """The others are taken over; paused ones are among them. What is unknown is asked for again."""
    temporal = FakeTemporal(["odd", "pod/n/default/web/u"], {"odd": error})
    assert await take_over(look_at(temporal), "me") == TakenOver(1, frozenset(unknown))
    assert temporal.freed == ["pod/n/default/web/u"]
