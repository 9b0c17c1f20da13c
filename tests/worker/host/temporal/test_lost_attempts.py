"""Is an attempt found that Temporal takes for running here and that does not, and only such a one?"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from temporalio import activity, workflow
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from proto.pod_snapshot import PodSnapshot
from worker.host.temporal import first_look, lost_attempts, takeover
from worker.host.temporal.first_look import FirstLook
from worker.host.temporal.lost_attempts import LostAttempts
from worker.host.temporal.takeover import take_over
from worker.temporal.call_budget import CallBudget
from worker.temporal.executions import describe_execution
from worker.temporal.temporal_client import TemporalSettings, connect, prepare

KEY = "probe/web"
NO_NODE = "node/none"
Handle = WorkflowHandle[Any, Any]


@workflow.defn(name="Probed", sandboxed=False)
class Probed:
    """Has one endless activity."""

    @workflow.run
    async def run(self) -> int:
        """Return the attempt that ended it."""
        answer: int = await workflow.execute_activity(
            "Probe",
            result_type=int,
            activity_id=KEY,
            start_to_close_timeout=timedelta(days=365),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50)),
        )
        return answer


@activity.defn(name="Probe")
async def probe() -> int:
    """Return the number of the attempt."""
    return activity.info().attempt


@pytest.fixture
async def client(settings: TemporalSettings) -> Client:
    """Connect as the worker does."""
    made = await connect(settings, identity="worker/n1/host/1")
    await prepare(made, settings)
    return made


@pytest.fixture
async def probed(client: Client) -> AsyncIterator[Handle]:
    """Start a workflow whose activity is waiting for a worker."""
    queue = f"q{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Probed], workflow_runner=UnsandboxedWorkflowRunner()):
        yield await client.start_workflow(Probed.run, id=queue, task_queue=queue)


async def lose(client: Client, handle: Handle) -> None:
    """Take the activity from the queue under our identity, and lose it."""
    asked = PollActivityTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=handle.id), identity=client.identity
    )
    taken = await client.workflow_service.poll_activity_task_queue(asked)
    assert taken.activity_id == KEY


def shown(handle: Handle) -> PodSnapshot:
    """Build the pod's snapshot, by which the probe is under way."""
    return PodSnapshot(handle.id, "n1", "default", "web", "1", "file", "", "sync", under_way=(KEY,))


def looking(client: Client, handle: Handle, present: PresentAttempts | None = None) -> LostAttempts:
    """Look for lost attempts of this workflow."""
    return LostAttempts(client, present or PresentAttempts(), lambda: [shown(handle)], node_workflow=NO_NODE)


async def test_a_lost_answer_of_a_poll_costs_half_a_minute(
    client: Client, probed: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt is failed by the second look, and the next one comes here."""
    monkeypatch.setattr(lost_attempts, "MISSING_SECONDS", 0.0)
    await lose(client, probed)
    lost = looking(client, probed)
    assert await lost.look() == 0
    assert await lost.look() == 1
    async with Worker(client, task_queue=probed.id, activities=[probe]):
        assert await probed.result() == 2


async def test_an_attempt_that_runs_here_is_left_alone(
    client: Client, probed: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its action was missed for a while."""
    monkeypatch.setattr(lost_attempts, "MISSING_SECONDS", -1.0)
    present, gate = PresentAttempts(), Mock()

    @activity.defn(name="Probe")
    async def looked_at() -> int:
        lost = looking(client, probed, present)
        gate.failed = [await lost.look(), await lost.look(), await lost.look()]
        return activity.info().attempt

    interceptor = AttachingAttempts(RunningActions(), present)
    async with Worker(client, task_queue=probed.id, activities=[looked_at], interceptors=[interceptor]):
        assert await probed.result() == 1
    assert gate.failed == [0, 0, 0]


async def test_an_idle_node_asks_temporal_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What should run does; only the first look asks, for the node's own workflow."""
    present = PresentAttempts()
    describe = AsyncMock(side_effect=RPCError("not there yet", RPCStatusCode.NOT_FOUND, b""))
    for module in (takeover, first_look):
        monkeypatch.setattr(module, "describe_execution", describe)
    attempt = Mock(workflow_id="pod/1", key=KEY, asker=("r", 1), number=1)
    snapshot = PodSnapshot("pod/1", "n1", "default", "web", "1", "file", "", "sync", under_way=(KEY,))
    lost = LostAttempts(Mock(), present, lambda: [snapshot], node_workflow="node/n1")
    with present.one(attempt), present.one(Mock(workflow_id="node/n1", key="images/0", asker=("r", 1), number=1)):
        for _ in range(5):
            assert await lost.look() == 0
    assert [call.args[1] for call in describe.call_args_list] == ["node/n1"]


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let a busy Temporal describe no workflow while this is set."""
    is_away = asyncio.Event()

    async def describe(client: Client, workflow_id: str) -> Any:
        if is_away.is_set():
            raise RPCError("namespace rate limit exceeded", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
        return await describe_execution(client, workflow_id)

    for module in (takeover, first_look):
        monkeypatch.setattr(module, "describe_execution", describe)
    return is_away


async def test_an_error_of_temporal_is_not_taken_for_the_end_of_a_workflow(
    client: Client, probed: Handle, away: asyncio.Event
) -> None:
    """What the starting worker could not ask is asked for again."""
    await lose(client, probed)
    away.set()
    taken = await take_over(FirstLook(client, "n1", CallBudget()), "worker/n1/host/2", [probed.id])
    assert (taken.attempts, set(taken.unknown)) == (0, {probed.id})
    away.clear()
    lost = LostAttempts(client, PresentAttempts(), list, node_workflow=NO_NODE, unknown=taken.unknown)
    assert [await lost.look(), await lost.look()] == [0, 1]
    await probed.terminate()


async def test_temporal_may_be_away(client: Client, probed: Handle, away: asyncio.Event) -> None:
    """The look after its return does what was left."""
    await lose(client, probed)
    away.set()
    lost = LostAttempts(client, PresentAttempts(), list, node_workflow=NO_NODE, unknown=[probed.id])
    assert await lost.look() == 0
    away.clear()
    assert [await lost.look(), await lost.look()] == [0, 1]
    await probed.terminate()


async def test_a_new_worker_takes_over_what_an_earlier_one_began(client: Client, probed: Handle) -> None:
    """At once, because no other process can be working on it."""
    await lose(client, probed)
    assert (await take_over(FirstLook(client, "n1", CallBudget()), client.identity, [probed.id])).attempts == 0
    assert (await take_over(FirstLook(client, "n1", CallBudget()), "worker/n1/host/2", [probed.id])).attempts == 1
    async with Worker(client, task_queue=probed.id, activities=[probe]):
        assert await probed.result() == 2
