"""Is the status of a pod with a lost history published only once it is known again?"""

from datetime import UTC, datetime
from functools import partial

from proto.temporal import names
from proto.temporal.pod_inputs import FirstSight
from tests.workflows.conftest import Node, is_ready_after, pod_json


async def test_a_pod_that_temporal_has_forgotten_is_told_of_as_it_is(node: Node) -> None:
    """Neither Pending nor a restart count of 0 reaches the API; and nothing of it is started again."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, partial(is_ready_after, 0))
    await node.exits(handle, "web", 1)
    await node.until(pod, partial(is_ready_after, 1))
    await handle.terminate("its history is lost")
    node.forget()
    handle = await node.start(pod, first_sight=FirstSight(started_at=datetime.now(UTC)))
    await node.until(pod, lambda one: one.ready)
    assert {(one.phase, one.ready, one.restarts) for one in node.told} == {("Running", True, 1)}
    assert len(node.runtime.named(names.RUN_POD_SANDBOX)) == 1
    await node.delete(handle)
    assert (node.runtime.sandboxes, node.runtime.directories) == ({}, set())
