"""Are volumes republished where their driver requires it, and those of lost pods unmounted?"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities.clients.csi_drivers import Driver
from activities.files import mounts
from activities.files.file_trees import remove_tree
from activities.objects.objects import ObjectKind
from activities.pods.orphan_mark import mark, marked_pods
from activities.volumes.csi.node_volumes import NodeVolumes
from activities.volumes.csi.records.republishing import republished_volumes
from activities.volumes.orphaned_volumes import held_volumes
from activities.volumes.plugin.volume_type import VolumeFailed
from activities.volumes.pod_volumes import VolumeActivities
from proto.temporal.activities.volumes import MountVolumes
from proto.volume_events import VolumeEvent
from tests.activities.volumes.csi.csi_node import CANARY, CLAIM, NAME, PUBLISH, STAGE, UNPUBLISH, Node, NodeWithDriver
from tests.csi.orders import Order, Setup
from tests.csi.serving import serving
from worker.host.csi.republishing import Republishing, delay_after, republishing_volumes
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


def at_once(_: int) -> timedelta:
    """Wait for nothing."""
    return timedelta(0)


def heard(node: Node) -> list[VolumeEvent]:
    """Return the list of what is told from now on."""
    told: list[VolumeEvent] = []
    node.services = replace(node.services, volume_changed=told.append)
    return told


async def again(node: Node) -> None:
    """Publish the node's only volume again, once."""
    [volume] = republished_volumes(node.services.settings.root_dir)
    await NodeVolumes(node.services).publish_again(volume)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        pytest.param(1, 0.5, id="first"),
        pytest.param(2, 1, id="twice-as-long"),
        pytest.param(8, 64, id="before-the-longest"),
        pytest.param(9, 122, id="longest"),
        pytest.param(10**9, 122, id="for-ever"),
    ],
)
def test_the_delays(failures: int, seconds: float) -> None:
    """exponential_backoff.go Update."""
    assert delay_after(failures) == timedelta(seconds=seconds)


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
    async with republishing_volumes(node.services, timedelta(milliseconds=10), at_once):
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


@pytest.mark.parametrize("capabilities", [("STAGE_UNSTAGE_VOLUME",), ()], ids=["staged", "not-staged"])
async def test_a_device_is_published_again(tmp_path: Path, capabilities: tuple[str, ...]) -> None:
    """As it was the first time, and not staged again (GenerateMapVolumeFunc); its record goes with it, also from another process."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=capabilities)) as node:
        node.driver_object(requiresRepublish=True)
        node.bind(volumeMode="Block", accessModes=["ReadWriteMany"])
        await node.mount(node.pod("uid-1"))
        await node.mount(node.pod("uid-2"))
        staged = node.driver.count(STAGE)
        restarted = node.restarted()
        for one in list(republished_volumes(node.services.settings.root_dir)):
            await NodeVolumes(restarted.services).publish_again(one)
        asked = node.driver.calls(PUBLISH)
        assert sorted(asked[2:], key=repr) == sorted(asked[:2], key=repr)
        assert node.driver.count(STAGE) == staged == len(capabilities)
        await node.unmount(node.pod("uid-1"))
        assert [one.key.uid for one in republished_volumes(node.services.settings.root_dir)] == ["uid-2"]
        await node.unmount(node.pod("uid-2"))
        assert node.left() == []


@pytest.mark.parametrize(
    ("mode", "reason", "message"),
    [
        pytest.param("Filesystem", "FailedMount", "MountVolume.SetUp failed", id="files"),
        pytest.param("Block", "FailedMapVolume", "MapVolume.MapPodDevice failed", id="a-device"),
    ],
)
async def test_a_failure_is_told(node: Node, mode: str, reason: str, message: str) -> None:
    """In the kubelet's words, once for each attempt; without the secret."""
    node.driver_object(requiresRepublish=True)
    node.secret("publish", key=CANARY)
    node.bind(volumeMode=mode, csi={"nodePublishSecretRef": {"namespace": "default", "name": "publish"}})
    pod = node.pod("uid-1")
    await node.mount(pod)
    told = heard(node)
    node.driver.order(PUBLISH, Order(times=3, code="INVALID_ARGUMENT", details=f"no {CANARY}"))
    async with republishing_volumes(node.services, timedelta(milliseconds=10), at_once):
        await calls(node, 4)
    why = "rpc error: code = InvalidArgument desc = no [hidden]"
    assert told == [VolumeEvent(pod, None, True, reason, f'{message} for volume "pv1" : {why}')] * 2
    await node.unmount(pod)
    assert node.left() == []


async def test_a_failure_undoes_nothing(node: Node) -> None:
    """Whatever a driver has at the path: it stays, and is unpublished when the pod goes (csi_mounter.go, kubernetes#121271)."""
    node.driver_object(requiresRepublish=True)
    pod = node.pod("uid-1")
    target = Path((await node.mount(pod)).volume.path)
    mounts.unmount(target)
    node.driver.order(PUBLISH, Order(times=3, code="INVALID_ARGUMENT", details="not now"))
    with pytest.raises(VolumeFailed):
        await again(node)
    with pytest.raises(VolumeFailed):
        await node.mount(pod)
    assert await asyncio.to_thread(target.is_dir)
    await node.unmount(pod)
    assert node.driver.count(UNPUBLISH) == 1
    assert node.left() == []


async def test_what_is_new_belongs_to_the_pods_group(node: Node) -> None:
    """As after the first time (csi_mounter.go SetUpAt)."""
    node.driver_object(requiresRepublish=True, fsGroupPolicy="File")
    target = Path((await node.mount(node.pod("uid-1"), securityContext={"fsGroup": 4321})).volume.path)
    (target / "renewed").touch(0o600)
    await again(node)
    found = (target / "renewed").stat()
    assert (found.st_gid, found.st_mode & 0o777) == (4321, 0o660)
    await node.unmount(node.pod("uid-1"))


async def test_a_driver_that_hangs_delays_no_other_volume(tmp_path: Path) -> None:
    """And is not asked twice at once."""
    inline = {"name": "own", "csi": {"driver": NAME}}
    other = serving(tmp_path / "other", tmp_path / "other.sock", Setup("other.test"))
    async with NodeWithDriver(tmp_path, Setup()) as node, other as healthy:
        await node.services.csi.add(Driver("other.test", str(healthy.path / "csi.sock")))
        spec = {"attachRequired": False, "requiresRepublish": True, "volumeLifecycleModes": ["Ephemeral"]}
        for name in (NAME, "other.test"):
            node.objects.put(ObjectKind.CSI_DRIVERS, name, {"spec": spec})
        await node.mount(node.pod("uid-1"), inline)
        await node.mount(node.pod("uid-2"), {"name": "own", "csi": {"driver": "other.test"}})
        node.driver.order(PUBLISH, Order(until=str(tmp_path / "never")))
        republishing = Republishing(node.services)
        for _ in range(3):
            await republishing.look()
            await asyncio.gather(*(work for at, work in republishing._working.items() if "uid-2" in at.parts))
        assert healthy.count(PUBLISH) == 4
        assert node.driver.count(PUBLISH) <= 2
        await republishing.stop()


async def test_a_pod_that_terminates_gets_nothing_new(node: Node) -> None:
    """As with a kubelet, which mounts again only while it synchronizes a pod that is to run."""
    node.driver_object(requiresRepublish=True)
    pod = node.pod("uid-1")
    await node.mount(pod)
    told = heard(node)
    node.services.terminating.set(pod.uid, terminating=True)
    republishing = Republishing(node.services)
    await republishing.look()
    await asyncio.gather(*republishing._working.values())
    assert node.driver.count(PUBLISH) == 1
    assert told == []
    await node.unmount(pod)


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
