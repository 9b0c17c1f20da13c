"""Does a node run a removed pod again for somebody who reaches Temporal without the keys, and has captured its start?"""

import asyncio
from typing import Any

from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.failure_types import TICKET_REFUSED
from proto.temporal.names import PodWorkflowId, node_workflow_id
from tests.node.containerd_view import containers_of, sandboxes_of
from tests.node.tempolet_node import TempoletNode, pod_manifest
from tests.worker.tickets.conftest import start_again
from worker.temporal.executions import describe_execution
from worker.tickets.seal import HEADER


def events(node: TempoletNode, workflow_id: str, run_id: str | None = None) -> list[HistoryEvent]:
    """Read the history of a run, by default of the newest; nothing before the first one is started."""

    async def read() -> list[HistoryEvent]:
        handle = (await node.client()).get_workflow_handle(workflow_id, run_id=run_id)
        try:
            return list((await handle.fetch_history()).events)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return []
            raise

    return asyncio.run(read())


def status(node: TempoletNode, workflow_id: str) -> int:
    """Return the status of the newest run."""

    async def ask() -> int:
        return int((await describe_execution(await node.client(), workflow_id)).workflow_execution_info.status)

    return asyncio.run(ask())


def test_the_nodes_own_workflow_has_a_ticket(node: TempoletNode) -> None:
    """Its watch of the images shows it, and is not refused."""

    def watches() -> list[HistoryEvent]:
        found = events(node, node_workflow_id(node.name))
        return [one for one in found if one.HasField("activity_task_scheduled_event_attributes")]

    node.until(watches, "its first activity")
    assert all(HEADER in one.activity_task_scheduled_event_attributes.header.fields for one in watches())
    assert node.log("worker").count("refused an activity") == 0


def test_a_removed_privileged_pod_is_not_started_again(node: TempoletNode) -> None:
    """Nothing is made, it is told in history and log, and the run is ended; a manifest still starts the pod."""
    manifest = pod_manifest("captured")
    manifest["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    node.apply(manifest)
    before = node.until_running("captured")
    workflow_id = str(PodWorkflowId(node.name, "default", before.name, before.uid))
    node.take_away("captured")
    node.until(lambda: status(node, workflow_id) == Status.WORKFLOW_EXECUTION_STATUS_COMPLETED, "its life is over")
    began = events(node, workflow_id)[0]

    async def attack() -> Any:
        return (await start_again(await node.client(), node.name, workflow_id, began)).run_id

    def attacked() -> tuple[list[HistoryEvent], set[str]]:
        run_id = asyncio.run(attack())
        node.until(lambda: status(node, workflow_id) == Status.WORKFLOW_EXECUTION_STATUS_TERMINATED, "the run is ended")
        found = events(node, workflow_id, run_id)
        failed = [one for one in found if one.HasField("activity_task_failed_event_attributes")]
        types = {one.activity_task_failed_event_attributes.failure.application_failure_info.type for one in failed}
        return found, types

    found, reasons = attacked()
    if not reasons:
        # refused runs are looked for every ten seconds: one look came before the activity's answer, the next is far
        found, reasons = attacked()
    assert reasons == {TICKET_REFUSED}
    answered = [one for one in found if one.HasField("activity_task_completed_event_attributes")]
    assert answered == []
    assert containers_of(node.containerd, before.uid) == sandboxes_of(node.containerd, before.uid) == []
    assert node.pod("captured") is None
    assert "refused an activity that this node has not asked for" in node.log("worker")
    node.apply(manifest)
    again = node.until_running("captured")
    assert (again.uid, again.restarts) == (before.uid, 0)
    node.take_away("captured")
