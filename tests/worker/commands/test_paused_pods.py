"""Do `explain` and the commands that change a pod tell of a paused workflow, and of a paused activity?"""

import asyncio

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    PauseWorkflowExecutionRequest,
    UnpauseWorkflowExecutionRequest,
)
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from tests.patience import PATIENCE
from tests.worker.commands.test_reading_commands import Commands, listed, tempolet
from tests.workflows.conftest import Node, client, node, pod_json
from worker.commands.access.exits import Exit
from worker.temporal.executions import PAUSED, describe_execution, list_executions

__all__ = ["client", "node", "tempolet"]  # fixtures of other files


async def test_a_paused_workflow_is_told_and_takes_no_requests(node: Node, client: Client, tempolet: Commands) -> None:
    """Who paused it, why, and what continues it; a request is refused at once, with the same words."""
    name = f"default/{node.name}"
    pod = pod_json(name=node.name)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await listed(client, node, 1)
    place = {"namespace": client.namespace, "workflow_id": handle.id}
    await client.workflow_service.pause_workflow_execution(
        PauseWorkflowExecutionRequest(**place, identity="joe", reason="night shift")
    )
    described = await describe_execution(client, handle.id)
    assert described.workflow_execution_info.status == PAUSED
    code, out, _ = await tempolet("explain", name)
    assert code == Exit.DONE
    assert "blocked: its workflow was paused by joe at " in out
    assert " (night shift): its containers run on, but nothing is done about it until " in out
    assert f"`temporal workflow unpause --workflow-id {handle.id}`" in out
    for request in (["skip-backoff", name], ["condition", name, "example.com/ok=True"], ["stop", name]):
        code, _, err = await tempolet(*request)
        assert (code, "the pod's workflow is paused, and takes no requests" in err) == (Exit.FAILED, True), err
    _, out, _ = await tempolet("history", name)
    assert "UID" in out
    await client.workflow_service.unpause_workflow_execution(UnpauseWorkflowExecutionRequest(**place, identity="joe"))
    _, out, _ = await tempolet("explain", name)
    assert "state: Running" in out
    await node.delete(handle)


async def test_a_paused_activity_is_told(node: Node, client: Client, tempolet: Commands) -> None:
    """By its key, with who paused it."""
    pod = pod_json(name=node.name)
    away = ApplicationError("no container runtime answers", type="RuntimeUnavailable")
    node.runtime.failing[names.RUN_POD_SANDBOX] = [away] * 1000
    handle = await node.start(pod)
    await listed(client, node, 1)
    async with asyncio.timeout(PATIENCE):
        while "(try " not in (await tempolet("explain", f"default/{node.name}"))[1]:
            pass
    execution = WorkflowExecution(workflow_id=handle.id)
    await client.workflow_service.pause_activity(
        PauseActivityRequest(
            namespace=client.namespace, execution=execution, id="sandbox", identity="joe", reason="night shift"
        )
    )
    _, out, _ = await tempolet("explain", f"default/{node.name}")
    assert "under way: run sandbox, attempt 0" in out
    assert "paused by joe at " in out
    assert " (night shift); nothing comes of it until it is unpaused" in out
    await handle.terminate()


async def test_an_open_workflow_is_listed_whatever_its_status(node: Node, client: Client) -> None:
    """A status that the SDK's enum does not know ends no list."""
    handle = await node.start(pod_json(name=node.name))
    await listed(client, node, 1)
    place = {"namespace": client.namespace, "workflow_id": handle.id}
    await client.workflow_service.pause_workflow_execution(PauseWorkflowExecutionRequest(**place))
    found = [one async for one in list_executions(client, f"WorkflowId = '{handle.id}'")]
    assert [one.id for one in found if one.is_open] == [handle.id]
    await handle.terminate()
