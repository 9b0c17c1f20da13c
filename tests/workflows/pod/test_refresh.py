"""Does the workflow mount volumes with changed content again, once, and no others?"""

from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.signals import ObjectsChanged, PodListed
from tests.workflows.conftest import Node, pod_json

VOLUMES = [
    {"name": "conf", "configMap": {"name": "app"}},
    {"name": "keys", "secret": {"secretName": "db"}},
    {"name": "about", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
]
APP = "configmaps/app"


def mounts(node: Node) -> list[list[str]]:
    """Return the volumes of each mount."""
    asked: list[MountVolumes] = node.runtime.named(names.MOUNT_VOLUMES)
    return [[one["name"] for one in request.volumes] for request in asked]


async def test_a_hint_mounts_what_shows_it_again(node: Node) -> None:
    """The snapshot tells the poller the new version; a repeated and a late hint change nothing."""
    node.runtime.objects = {APP: "1", "secrets/db": "1"}
    pod = pod_json(volumes=VOLUMES)
    handle = await node.start(pod)
    running = await node.until(pod, lambda one: one.ready)
    assert running.objects == {APP: "1", "secrets/db": "1"}
    node.runtime.objects[APP] = "2"
    await handle.signal(names.OBJECTS_CHANGED, ObjectsChanged("objects", {APP: "2"}))
    await node.until(pod, lambda one: one.objects.get(APP) == "2")
    for version in ("2", "1"):  # earlier hints are late now: they cost a mount, which finds the current version
        await handle.signal(names.OBJECTS_CHANGED, ObjectsChanged("objects", {APP: version}))
    edited = {**pod, "metadata": {**pod["metadata"], "labels": {"app": "two"}}}
    await handle.signal(names.POD_LISTED, PodListed("file", pod=edited, in_place=True))
    await node.until(pod, lambda _: "about" in str(mounts(node)[1:]))
    await node.delete(handle)
    assert mounts(node)[:2] == [["conf", "keys", "about"], ["conf"]]
    assert sorted(name for one in mounts(node)[2:] for name in one) == ["about", "conf"]
    assert len(node.runtime.named(names.START_CONTAINER)) == 1


async def test_what_waits_for_an_object_goes_on_when_it_comes(node: Node) -> None:
    """Before the time of its next retry."""
    missing = ApplicationError('configmap "app" not found', type="FailedMount", non_retryable=True)
    node.runtime.failing[names.MOUNT_VOLUMES] += [missing] * 4  # the fifth attempt would come after 15 seconds
    pod = pod_json(volumes=VOLUMES)
    handle = await node.start(pod)
    waiting = await node.until(pod, lambda one: one.reason == "FailedMount")
    assert waiting.objects == {APP: "?", "secrets/db": "?"}
    for version in "123456":
        if node.runtime.failing[names.MOUNT_VOLUMES]:
            tries = len(mounts(node))
            await handle.signal(names.OBJECTS_CHANGED, ObjectsChanged("objects", {APP: version}))
            await node.until(pod, lambda _, tries=tries: len(mounts(node)) > tries)  # type: ignore[misc]  # a default
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)


async def test_a_refresh_that_is_refused_leaves_the_pod_as_it_is(node: Node) -> None:
    """It keeps running and is ready; the next version is tried at once."""
    node.runtime.objects = {APP: "1", "secrets/db": "1"}
    pod = pod_json(volumes=VOLUMES)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    refused = ApplicationError("has mode 0644", type="FailedMount", non_retryable=True)
    node.runtime.failing[names.MOUNT_VOLUMES].append(refused)
    await handle.signal(names.OBJECTS_CHANGED, ObjectsChanged("objects", {"secrets/db": "2"}))
    await node.until(pod, lambda one: len(mounts(node)) == 2 and one.ready and one.phase == "Running")
    node.runtime.objects["secrets/db"] = "3"
    await handle.signal(names.OBJECTS_CHANGED, ObjectsChanged("objects", {"secrets/db": "3"}))
    await node.until(pod, lambda one: one.objects["secrets/db"] == "3" and one.ready)
    await node.delete(handle)
