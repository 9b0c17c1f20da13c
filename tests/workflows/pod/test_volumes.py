"""Does PodWorkflow mount a pod's volumes beside its sandbox, and prepare its ResourceClaims before, and are both undone in order?"""

import asyncio

from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson
from proto.temporal.signals import RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json

BUSY = ApplicationError("device or resource busy", type="FailedUnmount", non_retryable=True)
MISSING = ApplicationError("/nowhere is not a directory", type="FailedMount", non_retryable=True)
NO_PLACE = ApplicationError("no place", type="VolumeAttachmentLimitExceeded", non_retryable=True)


def with_volume() -> PodJson:
    """Build a pod whose container mounts a volume."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    return pod_json(volumes=[{"name": "data", "emptyDir": {}}], containers=[container("web", volumeMounts=mounts)])


def order(node: Node, *of: str) -> list[str]:
    """Return the order of some activities' calls."""
    return [name for name, _ in node.runtime.calls if name in of]


async def test_mounted_beside_the_sandbox_and_undone_before_the_directories(node: Node) -> None:
    """Both run in parallel; the container starts after both and gets its volume; the undo is in reverse order."""
    node.runtime.held[names.MOUNT_VOLUMES] = node.runtime.held[names.RUN_POD_SANDBOX] = asyncio.Event()
    pod = with_volume()
    handle = await node.start(pod)
    async with asyncio.timeout(PATIENCE):
        while len(order(node, names.MOUNT_VOLUMES, names.RUN_POD_SANDBOX)) < 2:
            node.runtime.changed.clear()
            await node.runtime.changed.wait()
    node.runtime.held[names.RUN_POD_SANDBOX].set()
    await node.until(pod, lambda one: one.ready)
    [start] = node.runtime.named(names.START_CONTAINER)
    assert start.volumes == (MountedVolume("data", "/volumes/data"),)
    await node.delete(handle)
    undone = [names.STOP_CONTAINER, names.STOP_POD_SANDBOX, names.REMOVE_POD_SANDBOX]
    undone += [names.UNMOUNT_VOLUMES, names.REMOVE_POD_DIRECTORIES]
    assert order(node, *undone) == undone
    assert node.runtime.mounted == set()


async def test_no_container_starts_before_its_volumes(node: Node) -> None:
    """A failed mount is reported, and retried by itself."""
    node.runtime.failing[names.MOUNT_VOLUMES] = [MISSING]
    pod = with_volume()
    handle = await node.start(pod)
    shown = await node.until(pod, lambda one: one.reason == "FailedMount")
    assert (shown.phase, shown.message) == ("Pending", "/nowhere is not a directory")
    assert not node.runtime.named(names.START_CONTAINER)
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(names.MOUNT_VOLUMES)) == 2
    await node.delete(handle)


async def test_a_pod_whose_volume_has_no_place_is_rejected(node: Node) -> None:
    """It has failed, and its sandbox and what was mounted are undone while it is still listed."""
    node.runtime.failing[names.MOUNT_VOLUMES] = [NO_PLACE]
    pod = with_volume()
    handle = await node.start(pod)
    shown = await node.until(pod, lambda one: one.phase == "Failed")
    async with asyncio.timeout(PATIENCE):
        while not order(node, names.UNMOUNT_VOLUMES):
            node.runtime.changed.clear()
            await node.runtime.changed.wait()
    assert (shown.reason, shown.message) == ("VolumeAttachmentLimitExceeded", "Pod was rejected: no place")
    assert not node.runtime.named(names.START_CONTAINER)
    await node.delete(handle)


async def test_a_busy_volume_holds_the_end_of_its_pod_up(node: Node) -> None:
    """It is reported and retried, and nothing is removed before."""
    node.runtime.failing[names.UNMOUNT_VOLUMES] = [BUSY]
    pod = with_volume()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    going = asyncio.create_task(node.delete(handle))
    await node.until(pod, lambda one: one.reason == "FailedUnmount")
    assert not node.runtime.named(names.REMOVE_POD_DIRECTORIES)
    await going
    assert order(node, names.UNMOUNT_VOLUMES, names.REMOVE_POD_DIRECTORIES) == [
        *(names.UNMOUNT_VOLUMES,) * 2,
        names.REMOVE_POD_DIRECTORIES,
    ]


async def test_a_new_sandbox_mounts_again(node: Node) -> None:
    """Mounts may have been lost with the machine."""
    pod = with_volume()
    handle = await node.start(pod)
    first = await node.until(pod, lambda one: one.ready)
    node.runtime.sandboxes.clear()
    node.runtime.containers.clear()
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", sandbox_lost=True))
    await node.until(pod, lambda one: one.ready and one.sandbox_id != first.sandbox_id)
    assert [one.sandbox_attempt for one in node.runtime.named(names.MOUNT_VOLUMES)] == [0, 1]
    await node.delete(handle)


UNPREPARED = ApplicationError(
    "DRA driver x is not registered", type="FailedPrepareDynamicResources", non_retryable=True
)
STUCK = ApplicationError("rpc error", type="FailedUnprepareDynamicResources", non_retryable=True)


def with_claim() -> PodJson:
    """Build a pod with a claim."""
    return pod_json(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])


async def test_prepared_before_the_sandbox_and_undone_after_it(node: Node) -> None:
    """A driver that is missing holds up the sandbox, and one that fails to undo the rest; both are tried again."""
    node.runtime.failing[names.PREPARE_RESOURCES] = [UNPREPARED]
    node.runtime.failing[names.UNPREPARE_RESOURCES] = [STUCK]
    pod = with_claim()
    handle = await node.start(pod)
    shown = await node.until(pod, lambda one: one.reason == "FailedPrepareDynamicResources")
    assert (shown.phase, shown.message) == ("Pending", "DRA driver x is not registered")
    assert not node.runtime.named(names.RUN_POD_SANDBOX)
    await node.until(pod, lambda one: one.ready)
    [asked, _] = node.runtime.named(names.PREPARE_RESOURCES)
    assert asked.pod_spec["spec"]["resourceClaims"] == pod["spec"]["resourceClaims"]
    await node.delete(handle)
    life = [names.PREPARE_RESOURCES] * 2 + [names.RUN_POD_SANDBOX, names.STOP_CONTAINER, names.STOP_POD_SANDBOX]
    life += [names.UNPREPARE_RESOURCES] * 2 + [names.REMOVE_POD_SANDBOX, names.REMOVE_POD_DIRECTORIES]
    assert order(node, *life) == life
    assert node.runtime.prepared == set()
