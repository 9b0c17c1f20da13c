"""Is a CSI volume staged once, published to each pod, undone when no pod uses it, and is no step lost after a crash?

The driver runs in the test's process with folders as volumes; its mounts are real.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.csi_drivers import Driver
from activities.files import mounts
from activities.objects.objects import ObjectKind
from activities.volumes.csi.records import block_places
from activities.volumes.csi.records.block_places import BlockPlace
from activities.volumes.csi.records.places import VolumeRecord, write_record
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle
from activities.volumes.plugin.volume_type import PodVolume
from activities.volumes.pod_volumes import VolumeActivities
from activities.volumes.types import persistent_volume_claim
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.mounted import MountedVolume
from tests.activities.volumes.csi.csi_node import (
    CANARY,
    CLAIM,
    LIFE,
    NAME,
    PUBLISH,
    STAGE,
    UNPUBLISH,
    UNSTAGE,
    Node,
    NodeWithDriver,
)
from tests.csi.orders import Order, Setup
from tests.csi.serving import serving

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


async def test_the_life_of_a_volume(node: Node) -> None:
    """Staged, published, seen at the kubelet's place, unpublished, unstaged, and nothing is left."""
    node.driver.volume("vol-1").mkdir(parents=True)
    (node.driver.volume("vol-1") / "file").write_text("content")
    pod, root = node.pod("uid-1"), node.services.settings.root_dir
    mounted = await node.mount(pod)
    target = root / "pods/uid-1/volumes/kubernetes.io~csi/pv1/mount"
    assert mounted.volume == MountedVolume("data", str(target))
    assert (target / "file").read_text() == "content"
    [staged, published] = node.driver.calls(STAGE, PUBLISH)
    assert staged["stagingTargetPath"].startswith(f"{root}/plugins/kubernetes.io/csi/{NAME}/")
    assert Path(staged["stagingTargetPath"]).parent.name == sha256(b"vol-1").hexdigest()
    assert published["stagingTargetPath"] == staged["stagingTargetPath"]
    assert published["targetPath"] == str(target)
    assert published["volumeCapability"] == {"mount": {}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}}
    assert json.loads((target.parent / "vol_data.json").read_text()) == {
        "specVolID": "pv1",
        "volumeHandle": "vol-1",
        "driverName": NAME,
        "nodeName": "n1",
        "attachmentID": f"csi-{sha256(f'vol-1{NAME}n1'.encode()).hexdigest()}",
        "volumeLifecycleMode": "Persistent",
        "tempolet.dev/attachable": "false",
    }
    await node.unmount(pod)
    await node.unmount(pod)
    assert node.life() == [STAGE, PUBLISH, UNPUBLISH, UNSTAGE]
    assert node.left() == []


async def test_two_pods_share_one_volume(node: Node) -> None:
    """Staged once, published twice, unstaged after the last."""
    one, two = node.pod("uid-1"), node.pod("uid-2")
    await asyncio.gather(node.mount(one), node.mount(two))
    assert sorted(node.life()) == sorted([STAGE, PUBLISH, PUBLISH])
    await node.unmount(one)
    assert node.life()[-1] == UNPUBLISH
    await asyncio.gather(node.unmount(two), node.unmount(one))
    assert node.life()[3:] == [UNPUBLISH, UNPUBLISH, UNSTAGE]
    assert node.left() == []


async def test_a_volume_that_is_there_is_found(node: Node) -> None:
    """The driver is not called; a restarted worker calls it again, which CSI allows."""
    pod = node.pod("uid-1")
    assert not (await node.mount(pod)).found
    assert (await node.mount(pod)).found
    assert node.life() == [STAGE, PUBLISH]
    node = node.restarted()
    assert not (await node.mount(pod)).found
    assert node.life() == [STAGE, PUBLISH, STAGE, PUBLISH]
    await node.unmount(pod)
    assert node.left() == []


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        pytest.param(STAGE, [STAGE], [UNPUBLISH, UNSTAGE], id="while-it-is-staged"),
        pytest.param(PUBLISH, [STAGE, PUBLISH], [UNPUBLISH, UNSTAGE], id="while-it-is-published"),
    ],
)
async def test_a_worker_that_dies_halfway_forgets_nothing(
    node: Node, tmp_path: Path, call: str, before: list[str], after: list[str]
) -> None:
    """The pod is removed without another mount: what may have been done is undone by the records on disk."""
    node.driver.order(call, Order(until=str(tmp_path / "never")))
    pod = node.pod("uid-1")
    mounting = asyncio.create_task(node.mount(pod))
    called = asyncio.create_task(node.driver.called[call].wait())
    await asyncio.wait({called, mounting}, return_when=asyncio.FIRST_COMPLETED)
    assert not mounting.done(), mounting.exception()
    mounting.cancel()
    await asyncio.gather(mounting, return_exceptions=True)
    node.driver.order(call, None)
    node = node.restarted()
    node.objects.kept.pop((ObjectKind.PERSISTENT_VOLUMES, "", "pv1"))
    await node.unmount(pod)
    assert node.life() == [*before, *after]
    assert node.left() == []


async def test_a_second_pod_while_the_first_one_is_half_gone(node: Node) -> None:
    """Unstaging failed for the first: the second stages again, and undoing the first does not unstage it."""
    one, two = node.pod("uid-1"), node.pod("uid-2")
    await node.mount(one)
    node.driver.order(UNSTAGE, Order(times=1, code="INTERNAL", details="device is busy"))
    with pytest.raises(
        ApplicationError, match=r"attacher\.UnmountDevice failed: rpc error: code = Internal desc = device"
    ):
        await node.unmount(one)
    await node.mount(two)
    await node.unmount(one)
    target = node.services.settings.root_dir / "pods/uid-2/volumes/kubernetes.io~csi/pv1/mount"
    assert mounts.is_mount_point(target)
    await node.unmount(two)
    assert node.life() == [STAGE, PUBLISH, UNPUBLISH, UNSTAGE, STAGE, PUBLISH, UNPUBLISH, UNPUBLISH, UNSTAGE]
    assert node.left() == []


async def test_a_volume_of_the_pods_own(node: Node) -> None:
    """Never staged; its handle contains the pod's UID; the driver gets the pod's attributes if it asks for them."""
    node.driver_object(volumeLifecycleModes=["Ephemeral"], podInfoOnMount=True)
    node.secret("publish", key=CANARY)
    volume = {
        "name": "own",
        "csi": {
            "driver": NAME,
            "readOnly": True,
            "volumeAttributes": {"size": "1"},
            "nodePublishSecretRef": {"name": "publish"},
        },
    }
    pod = node.pod("uid-1")
    mounted = await node.mount(pod, volume, serviceAccountName="robot")
    target = Path(mounted.volume.path)
    assert target == node.services.settings.root_dir / "pods/uid-1/volumes/kubernetes.io~csi/own/mount"
    assert mounted.volume.read_only
    with pytest.raises(OSError, match="Read-only file system"):
        (target / "file").touch()
    [published] = node.driver.calls(STAGE, PUBLISH)
    assert published["volumeId"].startswith("csi-")
    assert published["secrets"] == {"key": CANARY}
    assert published["volumeContext"] == {
        "size": "1",
        "csi.storage.k8s.io/pod.name": "uid-1",
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": "uid-1",
        "csi.storage.k8s.io/serviceAccount.name": "robot",
        "csi.storage.k8s.io/ephemeral": "true",
    }
    await node.unmount(pod, volume)
    assert node.life() == [PUBLISH, UNPUBLISH]
    assert node.left() == []


async def test_a_driver_that_does_not_stage(tmp_path: Path) -> None:
    """Published only."""
    async with NodeWithDriver(tmp_path / "other", Setup(capabilities=())) as other:
        pod = other.pod("uid-1")
        await other.mount(pod)
        assert "stagingTargetPath" not in other.driver.calls(PUBLISH)[0]
        await other.unmount(pod)
        assert other.life() == [PUBLISH, UNPUBLISH]
        assert other.left() == []


async def test_a_device(node: Node) -> None:
    """At the kubelet's paths: the pod's link points to the driver's device."""
    node.bind(volumeMode="Block")
    one, two, root = node.pod("uid-1"), node.pod("uid-2"), node.services.settings.root_dir
    mounted = await node.mount(one)
    link = root / "pods/uid-1/volumeDevices/kubernetes.io~csi/pv1"
    assert mounted.volume == MountedVolume("data", str(link), device=True)
    assert link.is_block_device()
    assert link.readlink() == root / "plugins/kubernetes.io/csi/volumeDevices/publish/pv1/uid-1"
    await node.mount(two)
    node = node.restarted()
    await node.unmount(one)
    assert node.left() != []
    await node.unmount(two)
    assert node.life() == [STAGE, PUBLISH, PUBLISH, UNPUBLISH, UNPUBLISH, UNSTAGE]
    assert node.left() == []


@pytest.mark.parametrize("leaves", ["nothing", "a-folder", "a-file"])
async def test_a_device_of_a_driver_that_does_not_stage(tmp_path: Path, leaves: str) -> None:
    """It is told the staging path nevertheless (csi_block.go); what it leaves there holds up no pod, and is not unstaged."""
    async with NodeWithDriver(tmp_path / "other", Setup(capabilities=())) as other:
        other.bind(volumeMode="Block")
        pod, root = other.pod("uid-1"), other.services.settings.root_dir
        await other.mount(pod)
        staging = root / "plugins/kubernetes.io/csi/volumeDevices/staging/pv1"
        assert other.driver.calls(PUBLISH)[0]["stagingTargetPath"] == str(staging)
        assert not staging.exists()
        if leaves != "nothing":
            staging.mkdir(parents=True)
        if leaves == "a-file":
            (staging / "its-own").touch()
        await other.unmount(pod)
        assert other.life() == [PUBLISH, UNPUBLISH]
        assert other.left() == ([str(staging.relative_to(root))] if leaves == "a-file" else [])


async def test_a_volume_whose_driver_stages_no_more(tmp_path: Path) -> None:
    """Its new version has not the capability: only what is left on the node is removed, as by a kubelet (UnmountDevice)."""
    new = serving(tmp_path / "new", tmp_path / "new.sock", Setup(capabilities=()))
    async with NodeWithDriver(tmp_path, Setup()) as node, new as driver:
        pod = node.pod("uid-1")
        await node.mount(pod)
        [staged] = node.driver.calls(STAGE)
        await node.services.csi.add(Driver(NAME, str(driver.path / "csi.sock")))
        with pytest.raises(ApplicationError, match="is still mounted"):
            await node.unmount(pod)
        mounts.unmount(Path(staged["stagingTargetPath"]))
        await node.unmount(pod)
        assert node.life() == [STAGE, PUBLISH]
        assert driver.count(UNPUBLISH) == 2
        assert driver.count(UNSTAGE) == 0
        assert node.left() == []


async def test_a_device_that_was_forgotten_by_half(node: Node) -> None:
    """Its record is gone but the pod's link is not: the next try removes the link."""
    node.bind(volumeMode="Block")
    pod, root = node.pod("uid-1"), node.services.settings.root_dir
    await node.mount(pod)
    link = root / "pods/uid-1/volumeDevices/kubernetes.io~csi/pv1"
    to = link.readlink()
    await persistent_volume_claim.TYPE.unmount(PodVolume(pod, "data", {}, {"metadata": {}, "spec": {}}, node.services))
    (root / "pods/uid-1/plugins/tempolet.dev~claims").mkdir(parents=True, exist_ok=True)
    (root / "pods/uid-1/plugins/tempolet.dev~claims/data").write_text('{"type": "csi", "name": "pv1", "block": true}')
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(to)
    await node.unmount(pod)
    assert node.left() == []


async def test_a_device_that_another_pod_gives_up_without_having_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this pod gets it: the shared record stays, otherwise the volume could not be undone."""
    volume = CsiVolume(name="pv1", driver=NAME, handle="vol-1", lifecycle=Lifecycle.PERSISTENT, block=True)
    ours, other = BlockPlace(tmp_path, "uid-1", "pv1"), BlockPlace(tmp_path, "uid-2", "pv1")

    def write(directory: Path, data: Mapping[str, str]) -> None:
        write_record(directory, data)
        other.forget()

    monkeypatch.setattr(block_places, "write_record", write)
    ours.remember(volume, "n1")
    assert ours.record() == VolumeRecord(NAME, "vol-1", Lifecycle.PERSISTENT)


@pytest.mark.parametrize(
    ("capabilities", "policy", "group"),
    [
        pytest.param((), "File", 4321, id="by-the-node"),
        pytest.param((), "None", 0, id="by-nobody"),
        pytest.param(("VOLUME_MOUNT_GROUP",), "File", 0, id="by-the-driver"),
    ],
)
async def test_the_files_become_the_pods_groups(
    tmp_path: Path, capabilities: tuple[str, ...], policy: str, group: int
) -> None:
    """As the driver's object says, and only once: if the driver does it, nobody else does."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=capabilities)) as node:
        node.driver_object(fsGroupPolicy=policy)
        node.driver.volume("vol-1").mkdir(parents=True)
        file = node.driver.volume("vol-1") / "file"
        file.touch()
        pod = node.pod("uid-1")
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        told = {"metadata": metadata, "spec": {"securityContext": {"fsGroup": 4321}}}
        mount = VolumeActivities(node.services).mount_volumes
        await ActivityEnvironment().run(mount, MountVolumes(pod, (CLAIM,), told))
        assert file.stat().st_gid == group
        [published] = node.driver.calls(PUBLISH)
        said = published["volumeCapability"]["mount"].get("volumeMountGroup")
        assert said == ("4321" if capabilities else None)
        await node.unmount(pod)


async def test_a_volume_of_a_cloud_is_its_drivers(tmp_path: Path) -> None:
    """It is staged and published by the CSI driver that took over its type, and undone the same way."""
    async with NodeWithDriver(tmp_path, Setup(name="ebs.csi.aws.com")) as node:
        await node.services.csi.add(Driver("ebs.csi.aws.com", str(node.driver.path / "csi.sock")))
        node.objects.put(ObjectKind.CSI_DRIVERS, "ebs.csi.aws.com", {"spec": {"attachRequired": False}})
        node.bind(awsElasticBlockStore={"volumeID": "aws://us-east-1a/vol-7", "fsType": "xfs"})
        spec = dict(node.objects.kept[ObjectKind.PERSISTENT_VOLUMES, "", "pv1"].json["spec"])
        del spec["csi"]
        node.objects.put(ObjectKind.PERSISTENT_VOLUMES, "pv1", {"spec": spec})
        await node.mount(node.pod("u1"))
        await node.unmount(node.pod("u1"))
        assert [one["volumeId"] for one in node.driver.calls(*LIFE)] == ["vol-7"] * 4
        assert node.driver.calls("NodeStageVolume")[0]["volumeContext"] == {"partition": "0"}
        assert node.left() == []


@pytest.mark.parametrize(
    ("labels", "spec", "relabelled"),
    [
        pytest.param(True, {}, True, id="the-runtime-labels-its-files"),
        pytest.param(False, {}, False, id="its-file-system-has-none"),
        pytest.param(True, {"readOnly": True}, False, id="a-pod-that-only-reads"),
    ],
)
async def test_a_volume_whose_files_selinux_labels(
    node: Node, monkeypatch: pytest.MonkeyPatch, labels: bool, spec: dict[str, bool], relabelled: bool
) -> None:
    """csi_mounter.go SetUpAt and GetAttributes."""
    asked: list[Path] = []

    def labels_files(point: Path) -> bool:
        asked.append(point)
        return labels

    monkeypatch.setattr(mounts, "labels_files", labels_files)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "mine", **spec}}
    mounted = await node.mount(node.pod("uid-1"), claim)
    assert mounted.volume.selinux_relabel is relabelled
    assert asked == ([Path(mounted.volume.path)] if not spec else [])
