"""Does a hint that a pod exceeds its local storage end it, once, and does the snapshot have the limits to watch?"""

from proto.kubernetes.resources.storage_limits import StorageLimits
from proto.temporal import names
from proto.temporal.signals import StorageExceeded
from tests.workflows.conftest import Node, pod_json

VOLUMES = [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]


async def test_a_pod_that_holds_too_much_has_failed(node: Node) -> None:
    """The snapshot has the limit until then; a hint below the limit and later hints change nothing."""
    pod = pod_json(volumes=VOLUMES)
    handle = await node.start(pod)
    running = await node.until(pod, lambda one: one.ready)
    assert running.storage_limits == StorageLimits({"data": "1Mi"})
    for used in (1 << 20, 2 << 20, 3 << 20):
        await handle.signal(names.STORAGE_EXCEEDED, StorageExceeded("local-storage", "data", used))
    failed = await node.until(pod, lambda one: one.phase == "Failed")
    assert (failed.reason, failed.storage_limits) == ("Evicted", None)
    assert failed.status["message"].startswith('Usage of EmptyDir volume "data" exceeds the limit "1Mi". ')
    [stopped] = node.runtime.named(names.STOP_CONTAINER)
    assert stopped.container_id in {one.container_id for one in running.containers.values()}
    await node.delete(handle)


async def test_a_pod_without_limits_is_not_watched(node: Node) -> None:
    """Its snapshot has no limit."""
    pod = pod_json()
    handle = await node.start(pod)
    assert (await node.until(pod, lambda one: one.ready)).storage_limits is None
    await node.delete(handle)
