"""Is a run that takes no signal any more, also no deletion, ended by the poller, which can then start another?"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from proto.temporal import names
from proto.temporal.node import NodeConfigured
from proto.temporal.pod import PodJson, PodStart
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.conftest import development_server
from worker.behaviours.commitment import Commitment
from worker.poller.calls.pod_workflows import ENDED_FULL, PodWorkflows
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.temporal.executions import describe_execution
from worker.temporal.signal_numbers import SignalNumbers
from worker.temporal.temporal_client import TemporalSettings, connect, prepare
from worker.tickets.tickets import Tickets

MOST = 5
"""Signals that this Temporal takes in a run; 10,000 by default."""


@pytest.fixture(scope="module")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Temporal of its own."""
    limit = f"history.maximumSignalsPerExecution={MOST}"
    with development_server(tmp_path_factory.mktemp("temporal"), limit) as address:
        yield address


@pytest.fixture
async def client(settings: TemporalSettings) -> Client:
    """Connect as the poller does."""
    made = await connect(settings)
    await prepare(made, settings)
    return made


@pytest.fixture
def workflows(client: Client, tmp_path: Path) -> PodWorkflows:
    """Make the calls of a node without a worker, so that no run ends by itself."""
    node, tickets = f"n{uuid4().hex[:8]}", Tickets(tmp_path)
    return PodWorkflows(
        client, node, SignalNumbers(), Commitment(tmp_path), tickets=tickets, task_timeout=timedelta(seconds=7)
    )


def a_pod(workflows: PodWorkflows) -> tuple[PodStart, str]:
    """Build a pod, and its workflow's id."""
    uid = uuid4().hex
    pod: PodJson = {"metadata": {"name": "web", "namespace": "default", "uid": uid}, "spec": {"containers": []}}
    return PodStart(workflows._node, pod), str(names.PodWorkflowId(workflows._node, "default", "web", uid))


async def filled(client: Client, workflow_id: str) -> str:
    """Send what it still takes, as a stranger; returns its run."""
    for _ in range(MOST - 1):
        await client.get_workflow_handle(workflow_id).signal("Anything")
    return (await describe_execution(client, workflow_id)).workflow_execution_info.execution.run_id


async def assert_ended(client: Client, workflow_id: str, run_id: str) -> None:
    """Check that the poller has ended this run, and says why."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    assert (await handle.describe()).status is WorkflowExecutionStatus.TERMINATED
    *_, last = (await handle.fetch_history()).events
    assert last.workflow_execution_terminated_event_attributes.reason == ENDED_FULL


async def test_a_deletion_and_a_hint(client: Client, workflows: PodWorkflows) -> None:
    """The first call ends the run; the repeated one finds no workflow, and the pod is started anew, or removed."""
    start, workflow_id = a_pod(workflows)
    asked = DeletionRequested("file", "ManifestRemoved", "web.yaml is gone")
    for signal in (
        workflows.request_deletion(workflow_id, asked),
        workflows.hint(workflow_id, RuntimeChanged("event")),
    ):
        await workflows.start(start, PodListed("file"))
        run_id = await filled(client, workflow_id)
        with pytest.raises(TemporalUnavailable, match="can be started anew"):
            await signal
        await assert_ended(client, workflow_id, run_id)
        assert not await workflows.request_deletion(workflow_id, asked)
    await workflows.start(start, PodListed("file"))
    assert await workflows.is_open(workflow_id)


async def test_the_time_of_a_workflow_task(client: Client, workflows: PodWorkflows) -> None:
    """Is that of the machine."""
    start, workflow_id = a_pod(workflows)
    await workflows.start(start, PodListed("file"))
    described = await describe_execution(client, workflow_id)
    assert described.execution_config.default_workflow_task_timeout.seconds == 7


async def test_a_start(client: Client, workflows: PodWorkflows) -> None:
    """A start signals a run that is open; repeated, it starts one."""
    start, workflow_id = a_pod(workflows)
    await workflows.start(start, PodListed("file"))
    run_id = await filled(client, workflow_id)
    with pytest.raises(TemporalUnavailable):
        await workflows.start(start, PodListed("file"))
    await assert_ended(client, workflow_id, run_id)
    await workflows.start(start, PodListed("file"))
    assert await workflows.is_open(workflow_id)


async def test_the_nodes_workflow(client: Client, workflows: PodWorkflows) -> None:
    """The same."""
    await workflows.configure_node(NodeConfigured())
    workflow_id = names.node_workflow_id(workflows._node)
    run_id = await filled(client, workflow_id)
    with pytest.raises(TemporalUnavailable):
        await workflows.configure_node(NodeConfigured())
    await assert_ended(client, workflow_id, run_id)
    await workflows.configure_node(NodeConfigured())
    assert await workflows.is_open(workflow_id)
