"""Does Temporal's sandbox find our workflow code deterministic?

`tests/replay/test_replay.py` has more lives in it, whose activities have been recorded.
"""

import uuid
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from proto.temporal import names
from tests.workflows.conftest import Node, container, pod_json
from tests.workflows.model_runtime import ModelRuntime
from tests.workflows.strict_sandbox import strict_sandbox
from worker.host.pod_cache import publishing
from workflows.pod import PodWorkflow


async def test_a_life_with_the_sandbox_looking(client: Client) -> None:
    """Init container, crash, restart and deletion use nothing that the sandbox forbids."""
    node = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    hosted: dict[str, Any] = {"workflows": [PodWorkflow], "activities": node.runtime.activities()}
    async with Worker(
        client,
        task_queue=names.node_task_queue(node.name),
        workflow_runner=strict_sandbox(),
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
