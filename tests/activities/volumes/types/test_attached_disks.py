"""Are network disks attached once, shared by their pods, and detached after the last one, whatever else fails?

iscsiadm is a fake that creates the kernel's files about a session; there is no target and no adapter, and the disk is
a loop device.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from activities.node_services import NodeServices
from activities.volumes.disks.attached_disk import AttachedDisk
from activities.volumes.disks.scsi import ScsiTree
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.volume_type import VolumeFailed
from activities.volumes.types import iscsi
from activities.volumes.types.fc import FibreChannel
from activities.volumes.types.iscsi import Iscsi
from proto.temporal.mounted import MountedVolume
from tests.activities.volumes.stand_ins import StandIns
from tests.activities.volumes.types.disk_node import IQN, PLACE, SESSION, SHOW, SOURCE, below, called, of_pod

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


async def test_a_disk_is_logged_in_to_once_and_out_after_its_last_pod(
    services: NodeServices, tree: ScsiTree, programs: StandIns, device: Path
) -> None:
    """Only its own LUN is scanned for, sessions start manually only, and the kernel's disk is removed."""
    disk = AttachedDisk(Iscsi(tree))
    for uid in ("uid-1", "uid-2", "uid-2"):
        mounted = await disk.mount(of_pod(services, uid))
        target = below(services, f"pods/{uid}/volumes/kubernetes.io~iscsi/data")
        assert mounted.volume == MountedVolume("data", str(target), selinux_relabel=True)
        assert mounted.needs_fs_group
        (target / uid).touch()
    assert called(programs, "--login") == 1
    assert called(programs, "node.startup -v manual") == 1
    assert (tree.sys / "class/scsi_host/host7/scan").read_text() == "0 0 0"
    point = below(services, f"plugins/kubernetes.io/iscsi/{PLACE}")
    assert sorted(one.name for one in point.iterdir()) == ["lost+found", "uid-1", "uid-2"]

    await disk.unmount(of_pod(services, source={}))
    assert called(programs, "--logout") == 0
    for _ in range(2):
        await disk.unmount(of_pod(services, "uid-2", source={}))
        assert called(programs, "--logout") == 1
    assert (tree.sys / f"block/{device.name}/device/delete").read_text() == "1"
    assert not point.exists()
    assert mounts.mounts_below(services.settings.root_dir) == []


async def test_another_disk_of_the_target_keeps_its_session(
    services: NodeServices, tree: ScsiTree, programs: StandIns
) -> None:
    """A log-out would remove that disk."""
    disk = AttachedDisk(Iscsi(tree))
    await disk.mount(of_pod(services))
    below(services, f"plugins/kubernetes.io/iscsi/iface-default/192.0.2.1:3260-{IQN}-lun-4").mkdir()
    await disk.unmount(of_pod(services, source={}))
    assert called(programs, "--logout") == 0


async def test_a_disk_that_is_just_being_mounted_keeps_its_session(
    services: NodeServices, tree: ScsiTree, programs: StandIns, device: Path
) -> None:
    """The target's only other pod is removed while the new disk is being formatted."""
    disk, second = AttachedDisk(Iscsi(tree)), of_pod(services, "uid-2", SOURCE | {"lun": 4})
    await disk.mount(of_pod(services))
    (tree.dev / f"disk/by-path/ip-192.0.2.1:3260-iscsi-{IQN}-lun-4").symlink_to(device)
    looks, goes_on = programs.folder / "looks", programs.folder / "goes-on"
    for fifo in (looks, goes_on):
        os.mkfifo(fifo)
    programs.put("blkid", f'echo > {looks}; read word < {goes_on}; exec {shutil.which("blkid")} "$@"')
    task = asyncio.create_task(disk.mount(second))
    await asyncio.to_thread(looks.read_text)
    await disk.unmount(of_pod(services, source={}))
    assert called(programs, "--logout") == 0
    await asyncio.to_thread(goes_on.write_text, "on\n")
    await task
    await disk.unmount(second)
    assert called(programs, "--logout") == 1


async def test_a_device_is_shared_like_files(
    services: NodeServices, tree: ScsiTree, programs: StandIns, device: Path
) -> None:
    """A file for each pod counts its users."""
    disk = AttachedDisk(Iscsi(tree))
    persistent = PersistentVolume(name="data", type="iscsi", source=SOURCE, block=True)
    for uid in ("uid-1", "uid-2"):
        mounted = await disk.mount(of_pod(services, uid), persistent)
        assert mounted.volume == MountedVolume("data", str(device), device=True)
    await disk.unmount(of_pod(services, source={}), block=True)
    assert called(programs, "--logout") == 0
    await disk.unmount(of_pod(services, "uid-2", source={}), block=True)
    assert called(programs, "--logout") == 1
    assert not below(services, f"plugins/kubernetes.io/iscsi/volumeDevices/{PLACE}").exists()


async def test_an_initiator_of_its_own_has_an_interface_of_its_own(
    services: NodeServices, tree: ScsiTree, programs: StandIns
) -> None:
    """Cloned from the one that it names, and removed with the last disk."""
    disk, initiator = AttachedDisk(Iscsi(tree)), "iqn.2015-02.example.com:init"
    await disk.mount(of_pod(services, source=SOURCE | {"initiatorName": initiator}))
    own = "-m iface -I 192.0.2.1:3260:data -o"
    asked = programs.asked("iscsiadm")
    assert [one for one in asked if one.startswith(own)] == [
        f"{own} new",
        f"{own} update -n iface.initiatorname -v {initiator}",
        f"{own} update -n iface.transport_name -v tcp",
    ]
    await disk.unmount(of_pod(services, source={}))
    assert programs.asked("iscsiadm")[-1] == f"{own} delete"


async def test_a_target_that_refuses_is_told_and_leaves_nothing(
    services: NodeServices, tree: ScsiTree, programs: StandIns
) -> None:
    """With iscsiadm's message; its record is deleted, and undoing it only logs out of what is not there."""
    programs.put(
        "iscsiadm", f'{SHOW}\ncase "$*" in *--login*) echo "login failed"; exit 8;; *--logout*) exit 21;; esac'
    )
    disk = AttachedDisk(Iscsi(tree))
    with pytest.raises(VolumeFailed, match=r"failed to get any path for iscsi disk, last err seen:\n.*login failed"):
        await disk.mount(of_pod(services))
    assert called(programs, "-o delete") == 1
    await disk.unmount(of_pod(services))
    assert not below(services, "pods/uid-1/plugins/kubernetes.io~iscsi/data.json").exists()


async def test_a_disk_that_does_not_come(
    services: NodeServices, tree: ScsiTree, programs: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a session, but the LUN does not appear."""
    monkeypatch.setattr(iscsi, "_DEVICE_WITHIN", 0.2)
    with pytest.raises(VolumeFailed, match="Timed out waiting for device"):
        await AttachedDisk(Iscsi(tree)).mount(of_pod(services, source=SOURCE | {"lun": 5}))
    assert called(programs, "--login") == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param({"iqn": IQN}, "needs a targetPortal", id="no-portal"),
        pytest.param(SOURCE | {"iqn": "iqn.2001-04.com:../../../etc"}, "is not a valid folder name", id="a-path"),
        pytest.param(SOURCE | {"chapAuthSession": True}, "CHAP is not supported", id="passwords"),
    ],
)
async def test_a_source_that_makes_no_sense(
    services: NodeServices, tree: ScsiTree, source: dict[str, Any], message: str
) -> None:
    """Without an API server a PersistentVolume has not been validated."""
    persistent = PersistentVolume(name="data", type="iscsi", source=source)
    with pytest.raises(VolumeFailed, match=message):
        await AttachedDisk(Iscsi(tree)).mount(of_pod(services, source={}), persistent)


async def test_a_module_that_is_not_loaded(services: NodeServices, tree: ScsiTree, programs: StandIns) -> None:
    """The message says how to load it, because the worker may not."""
    said = "iscsiadm: Could not insert module tcp. Kmod error -1"
    programs.put("iscsiadm", f'{SHOW}\ncase "$*" in *--discover*) echo "{said}"; exit 21;; esac')
    with pytest.raises(VolumeFailed, match=rf"(?s){said}.*run `modprobe iscsi_tcp`"):
        await AttachedDisk(Iscsi(tree)).mount(of_pod(services))


async def test_a_node_without_iscsiadm(services: NodeServices, tree: ScsiTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install; the pod can be removed, unless there is a session that somebody has to end."""
    monkeypatch.setattr("activities.execution.programs.shutil.which", lambda *_, **__: None)
    disk = AttachedDisk(Iscsi(tree))
    with pytest.raises(VolumeFailed, match=r"iscsiadm is not on this node: install open-iscsi \(Debian"):
        await disk.mount(of_pod(services))
    target = tree.sys / SESSION / "iscsi_session/session1/targetname"
    target.parent.mkdir(parents=True)
    target.write_text(IQN)
    connection = tree.sys / SESSION / "connection1:0/iscsi_connection/connection1:0"
    connection.mkdir(parents=True)
    for name, content in {"address": "192.0.2.1", "port": "3260"}.items():
        (connection / name).write_text(content)
        (connection / f"persistent_{name}").write_text(content)
    with pytest.raises(VolumeFailed, match="iscsiadm is not on this node"):
        await disk.unmount(of_pod(services, source={}))
    target.unlink()
    await disk.unmount(of_pod(services, source={}))
    assert not below(services, "pods/uid-1/plugins/kubernetes.io~iscsi/data.json").exists()


@pytest.mark.parametrize(
    ("source", "link", "place"),
    [
        pytest.param(
            {"targetWWNs": ["50060e801049cfd1"], "lun": 3},
            "by-path/pci-0000:41:00.0-fc-0x50060e801049cfd1-lun-3",
            "50060e801049cfd1-lun-3",
            id="by-name-and-lun",
        ),
        pytest.param({"wwids": ["3600 508"]}, "by-id/scsi-3600_508", "3600_508", id="by-wwid"),
    ],
)
async def test_a_disk_behind_an_adapter(
    services: NodeServices, tree: ScsiTree, device: Path, source: dict[str, Any], link: str, place: str
) -> None:
    """Found after a rescan of all adapters; mounted, and removed after its last pod."""
    disk = AttachedDisk(FibreChannel(tree))
    with pytest.raises(VolumeFailed, match="no fc disk found"):
        await disk.mount(of_pod(services, source=source))
    assert (tree.sys / "class/scsi_host/host7/scan").read_text() == "- - -"
    (tree.dev / "disk" / link).symlink_to(device)
    mounted = await disk.mount(of_pod(services, source=source))
    assert mounted.volume.path == str(below(services, "pods/uid-1/volumes/kubernetes.io~fc/data"))
    assert mounts.is_mount_point(below(services, f"plugins/kubernetes.io/fc/{place}"))
    await disk.unmount(of_pod(services, source={}))
    assert (tree.sys / f"block/{device.name}/device/delete").read_text() == "1"
    assert mounts.mounts_below(services.settings.root_dir) == []


def test_several_paths_are_one_multipath_device(tree: ScsiTree, device: Path) -> None:
    """It is mounted, and its paths are removed with it."""
    assert tree.best_of([device]) == device
    (tree.sys / f"block/dm-4/slaves/{device.name}").mkdir(parents=True)
    (tree.sys / "block/dm-4/slaves/sdx").mkdir()
    multipath = tree.best_of([device])
    assert multipath == tree.dev / "dm-4"
    assert tree.paths_of(multipath) == [tree.dev / device.name, tree.dev / "sdx"]
