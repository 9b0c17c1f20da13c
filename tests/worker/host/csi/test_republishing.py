"""Are volumes republished where their driver requires it, and those of lost pods unmounted?"""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities.files import mounts
from activities.files.file_trees import remove_tree
from activities.pods.orphan_mark import mark, marked_pods
from activities.volumes.csi.node_volumes import NodeVolumes
from activities.volumes.csi.records.republishing import republished_volumes
from activities.volumes.orphaned_volumes import held_volumes
from activities.volumes.pod_volumes import VolumeActivities
from proto.temporal.activities.volumes import MountVolumes
from tests.activities.volumes.csi.csi_node import CANARY, CLAIM, PUBLISH, Node, NodeWithDriver
from tests.csi.orders import Order, Setup
from worker.host.csi.republishing import republishing_volumes
from worker.host.orphaned_pods import undo_orphaned_pods

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Return a node with a driver."""
    async with NodeWithDriver(tmp_path, Setup()) as made:
        yield made


async def calls(node: Node, count: int) -> None:
    """Wait until the driver has been asked to publish so often."""
    async with asyncio.timeout(20):
        while node.driver.count(PUBLISH) < count:
            node.driver.called[PUBLISH].clear()
            await node.driver.called[PUBLISH].wait()


async def test_a_volume_is_published_again_where_its_driver_asks(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a worker that was restarted, too; with what its secret is now, of which nothing lies on the disk or in a log."""
    node.driver_object(requiresRepublish=True, podInfoOnMount=True)
    node.secret("publish", key=CANARY)
    node.bind(csi={"nodePublishSecretRef": {"namespace": "default", "name": "publish"}})
    pod = node.pod("uid-1")
    mounted = await node.mount(pod)
    node = node.restarted()
    node.driver.order(PUBLISH, Order(times=3, code="INTERNAL", details=f"no {CANARY}"))
    async with republishing_volumes(node.services, timedelta(milliseconds=10)):
        await calls(node, 3)
        node.secret("publish", key="renewed")
        await calls(node, 6)
    published = node.driver.calls(PUBLISH)
    assert published[-1] == published[0] | {"secrets": {"key": "renewed"}}
    assert mounts.is_mount_point(Path(mounted.volume.path))
    said = "".join(capsys.readouterr())
    assert "a volume could not be published again; its pod keeps what it has" in said
    assert "no [hidden]" in said
    assert CANARY not in said
    assert not any(CANARY in file.read_text() for file in node.services.settings.root_dir.rglob("*.json"))
    await node.unmount(pod)
    assert node.left() == []


async def test_a_volume_whose_driver_asks_no_more(node: Node) -> None:
    """Its object was changed: nothing is called any more."""
    node.driver_object(requiresRepublish=True)
    pod = node.pod("uid-1")
    await node.mount(pod)
    [volume] = republished_volumes(node.services.settings.root_dir)
    await NodeVolumes(node.services).publish_again(volume)
    assert node.driver.count(PUBLISH) == 2
    node.driver_object()
    await NodeVolumes(node.services).publish_again(volume)
    assert node.driver.count(PUBLISH) == 2
    await node.unmount(pod)
    await NodeVolumes(node.services).publish_again(volume)
    assert node.left() == []


async def test_a_pod_that_goes_is_not_published_to(node: Node) -> None:
    """What was written down for it goes with it."""
    node.driver_object(requiresRepublish=True)
    pod = node.pod("uid-1")
    await node.mount(pod)
    async with republishing_volumes(node.services, timedelta(milliseconds=1)):
        await calls(node, 3)
        await node.unmount(pod)
        assert node.life()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
    assert node.left() == []


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_the_volumes_of_a_pod_that_nobody_remembers(node: Node, mode: str) -> None:
    """The pod's folder stays until the worker has unmounted them; nothing is removed through a mount."""
    node.bind(volumeMode=mode)
    node.driver.volume("vol-1").mkdir(parents=True)
    (node.driver.volume("vol-1") / "file").write_text("kept")
    pod, folder = node.pod("uid-1"), node.services.settings.root_dir / "pods/uid-1"
    await node.mount(pod)
    mark(node.services.settings.root_dir / "pods/uid-2")
    node = node.restarted()
    node.driver.order("NodeUnstageVolume", Order(times=1, code="INTERNAL", details="not yet"))
    for _ in range(2):
        assert held_volumes(folder) == ["pv1"]
        mark(folder)
        await undo_orphaned_pods(node.services)
    assert held_volumes(folder) == []
    remove_tree(folder)
    assert node.left() == []
    assert (node.driver.volume("vol-1") / "file").read_text() == "kept"


async def test_a_pod_that_comes_back_keeps_its_volumes(node: Node) -> None:
    """Its manifest is there again, and its workflow mounts: the mark is taken away."""
    pod = node.pod("uid-1")
    await node.mount(pod)
    mark(node.services.settings.root_dir / "pods/uid-1")
    spec = {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}, "spec": {}}
    await ActivityEnvironment().run(VolumeActivities(node.services).mount_volumes, MountVolumes(pod, (CLAIM,), spec))
    assert list(marked_pods(node.services.settings.root_dir)) == []
    await node.unmount(pod)
