"""Lives of an API server's pods of which something was missed, for `record_histories`: lost histories, absent processes."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from tests.cluster.cluster_node import ClusterNode, condition
from tests.cluster.pods.recorded_pods import PATH, bare, delete, kill, main_status, run_gated, until
from worker.stand_in.journal.reading import AWAY

HOLDS: Final = "batch.kubernetes.io/job-tracking"


def history_lost(node: ClusterNode) -> None:
    """It has restarted once and its gate is true when Temporal loses its history; its next workflow keeps both."""
    kill(node, run_gated(node))
    lost = until(node, lambda one: one.ready and one.restarts == 1, "restarted")
    with forgotten(node, lost):
        pass
    node.until(lambda: is_found(node, lost), "found again")
    delete(node, grace=2)


def end_lost(node: ClusterNode) -> None:
    """It has succeeded when Temporal loses its history; then it is deleted, and a finalizer keeps its object for a while."""
    manifest = bare("exit 0", restartPolicy="Never")
    manifest["metadata"]["finalizers"] = [HOLDS]
    node.create_pod(manifest)
    node.until_api_pod("pod", lambda pod: pod["status"]["phase"] == "Succeeded")
    with forgotten(node, until(node, lambda one: one.lifecycle == "terminated", "its end")):
        node.api.delete(PATH)
    node.until(lambda: not node.snapshots(), "nothing of it left on the node")
    node.api.patch(PATH, {"metadata": {"finalizers": None}})
    node.until_pod_gone("pod")


def deleted_unseen(node: ClusterNode) -> None:
    """It is created and deleted while no process of the node runs."""
    node.stop("poller")
    node.create_pod(bare())
    node.api.delete(PATH, gracePeriodSeconds=7)
    node.start("poller")
    node.until_pod_gone("pod")


@contextlib.contextmanager
def forgotten(node: ClusterNode, pod: PodSnapshot) -> Iterator[None]:
    """Delete a pod's history and the node's own record while no process of this node runs; worker and poller are restarted afterwards."""
    for role in ("poller", "worker"):
        node.stop(role)
    asyncio.run(delete_history(node, pod))
    node.until(lambda: not asyncio.run(is_listed(node, pod)), "its history gone")
    shutil.rmtree(node.root_dir / "tempolet" / AWAY)
    yield
    for role in ("worker", "poller"):
        node.start(role)


async def delete_history(node: ClusterNode, pod: PodSnapshot) -> None:
    """Delete a pod's workflows in Temporal."""
    client = await node.client()
    execution = WorkflowExecution(workflow_id=pod.workflow_id)
    asked = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(asked)


async def is_listed(node: ClusterNode, pod: PodSnapshot) -> bool:
    """Return whether Temporal lists a workflow of the pod."""
    client = await node.client()
    return bool([one async for one in client.list_workflows(f"WorkflowId = '{pod.workflow_id}'")])


def is_found(node: ClusterNode, pod: PodSnapshot) -> bool:
    """Return whether the pod has a workflow again, which knows that it is ready after one restart."""

    async def ask() -> Any:
        with contextlib.suppress(RPCError):  # not started yet, or no worker answers
            return await (await node.workflow(pod)).query(names.POD_STATUS, result_type=dict[str, Any])

    status = asyncio.run(ask())
    return (
        bool(status) and condition({"status": status}, "Ready") == "True" and main_status(status)["restartCount"] == 1
    )
