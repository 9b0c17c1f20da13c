"""Does Temporal's sandbox find our workflow code deterministic?

In production our modules are passed through the sandbox, which is fast but checks nothing. Here the sandbox loads `workflows`
itself, so a clock, a random number or a file access fails the task.
"""

import uuid
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from proto.temporal import names
from tests.workflows.conftest import Node, container, pod_json
from tests.workflows.model_runtime import ModelRuntime
from worker.host.pod_cache import publishing
from worker.processes.sdk_worker import PASSED_THROUGH
from workflows.pod import PodWorkflow


async def test_a_life_with_the_sandbox_looking(client: Client) -> None:
    """Init container, crash, restart and deletion use nothing that the sandbox forbids."""
    seen = [name for name in PASSED_THROUGH if name != "workflows"]
    runner = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*seen))
    node = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    hosted: dict[str, Any] = {"workflows": [PodWorkflow], "activities": node.runtime.activities()}
    async with Worker(
        client,
        task_queue=names.node_task_queue(node.name),
        workflow_runner=runner,
        interceptors=[publishing(node.publish)],
        **hosted,
    ):
        pod = pod_json(initContainers=[container("init")])
        node.runtime.exits_at_once["init"] = [0]
        handle = await node.start(pod)
        await node.until(pod, lambda one: one.ready)
        await node.exits(handle, "web", 1)
        await node.until(pod, lambda one: one.ready and one.restarts == 1)
        await node.delete(handle)
