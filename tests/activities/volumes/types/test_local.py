"""Is a folder or device of the node mounted for its pods, formatted only if empty, and unmounted after the last one?

The devices are loop devices, where the machine has those.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from activities.node_services import NodeServices
from activities.volumes.disks.mounting import disk_format
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed
from activities.volumes.types import local
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodKey
from tests.activities.volumes.stand_ins import StandIns

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


def of_pod(services: NodeServices, uid: str = "uid-1") -> PodVolume:
    """Return a volume of a pod."""
    return PodVolume(PodKey("default", "web", uid), "pv1", {}, {"spec": {}}, services)


def persistent(path: Path, **fields: Any) -> PersistentVolume:
    """Return a PersistentVolume."""
    options = {"fsType": fields.pop("kind")} if "kind" in fields else {}
    return PersistentVolume(name="pv1", type="local", source={"path": str(path), **options}, **fields)


def target(services: NodeServices, uid: str = "uid-1") -> Path:
    """Return the kubelet's path in the pod."""
    return services.settings.root_dir / f"pods/{uid}/volumes/kubernetes.io~local-volume/pv1"


def global_point(services: NodeServices) -> Path:
    """Return the kubelet's path of the mount for all pods."""
    return services.settings.root_dir / "plugins/kubernetes.io/local-volume/mounts/pv1"


async def test_a_folder_is_shown_and_stays(services: NodeServices, tmp_path: Path) -> None:
    """Found the second time; fsGroup is applied for the first pod only."""
    folder = tmp_path / "disks"
    folder.mkdir()
    for found in (False, True):
        mounted = await local.PERSISTENT.mount(of_pod(services), persistent(folder))
        assert mounted.volume == MountedVolume("pv1", str(target(services)), selinux_relabel=True)
        assert (mounted.found, mounted.needs_fs_group) == (found, True)
    (target(services) / "file").write_text("x")
    second = await local.PERSISTENT.mount(of_pod(services, "uid-2"), persistent(folder))
    assert second.needs_fs_group is False
    for _ in range(2):
        await local.PERSISTENT.unmount(of_pod(services), block=False)
        assert not target(services).exists()
    assert (target(services, "uid-2") / "file").exists()
    await local.PERSISTENT.unmount(of_pod(services, "uid-2"), block=False)
    assert (folder / "file").read_text() == "x"


async def test_read_only_and_options_of_its_own(services: NodeServices, tmp_path: Path) -> None:
    """They apply to this mount and not to the folder."""
    mounted = await local.PERSISTENT.mount(
        of_pod(services), persistent(tmp_path, mount_options=("noexec",), read_only=True)
    )
    assert mounted.volume.read_only
    assert mounted.needs_fs_group is False
    found = mounts.mount_at(target(services))
    assert found
    assert {"ro", "noexec"} <= set(found.options)
    (tmp_path / "new").touch()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        pytest.param({"mount_options": ("noexec",), "read_only": True}, {"ro", "noexec"}, id="options"),
        pytest.param({"read_only": True}, {"ro"}, id="read-only"),
    ],
)
async def test_a_folder_that_was_shown_by_half(
    services: NodeServices, tmp_path: Path, fields: dict[str, Any], wanted: set[str]
) -> None:
    """A worker was killed between the two steps of a bind: the next try does the second one."""
    target(services).mkdir(parents=True)
    mounts.bind(tmp_path, target(services))
    mounted = await local.PERSISTENT.mount(of_pod(services), persistent(tmp_path, **fields))
    assert mounted.found
    shown = mounts.mount_at(target(services))
    assert shown
    assert wanted <= set(shown.options)
    (tmp_path / "new").touch()


async def test_options_that_cannot_be_set_now(
    services: NodeServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No try shows the folder without them, and the first one leaves nothing mounted."""
    monkeypatch.setattr("activities.execution.programs.shutil.which", lambda *_, **__: None)
    for _ in range(2):
        with pytest.raises(VolumeFailed, match="mount is not on this node"):
            await local.PERSISTENT.mount(of_pod(services), persistent(tmp_path, mount_options=("noexec",)))
        assert not mounts.is_mount_point(target(services))


async def test_an_option_that_is_refused(
    services: NodeServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has mount's message, and nothing is left mounted."""
    programs = StandIns(tmp_path / "bin")
    programs.put("mount", "echo bad option; exit 32")
    monkeypatch.setenv("PATH", f"{programs.folder}:{os.environ['PATH']}")
    with pytest.raises(
        VolumeFailed, match=r"mount failed: exit status 32\nMounting command: mount\n.*\nOutput: bad option"
    ):
        await local.PERSISTENT.mount(of_pod(services), persistent(tmp_path, mount_options=("odd",)))
    assert programs.asked("mount") == [f"-o bind,remount,odd {target(services)}"]
    assert not mounts.is_mount_point(target(services))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("relative", r"PV pv1: spec\.local\.path must be an absolute path", id="relative"),
        pytest.param("/mnt/../etc", r"invalid path: /mnt/\.\./etc must not contain '\.\.'", id="upward"),
        pytest.param("/no/such/place", 'path "/no/such/place" does not exist', id="absent"),
        pytest.param("/dev/null", "only directory and block device are supported", id="neither-folder-nor-disk"),
    ],
)
async def test_a_path_that_makes_no_sense(services: NodeServices, path: str, message: str) -> None:
    """The message is the kubelet's."""
    with pytest.raises(VolumeFailed, match=message):
        await local.PERSISTENT.mount(of_pod(services), persistent(Path(path)))


async def test_a_folder_is_no_device(services: NodeServices, tmp_path: Path) -> None:
    """VolumeMode Block requires one."""
    with pytest.raises(VolumeFailed, match="is not a block device"):
        await local.PERSISTENT.mount(of_pod(services), persistent(tmp_path, block=True))


async def test_a_device_is_given_as_it_is(services: NodeServices, device: Path) -> None:
    """Nothing is mounted or written."""
    mounted = await local.PERSISTENT.mount(of_pod(services), persistent(device, block=True))
    assert mounted.volume == MountedVolume("pv1", str(device), device=True)
    await local.PERSISTENT.unmount(of_pod(services), block=True)
    assert await disk_format(device) == ""


async def test_an_empty_device_is_formatted_once_and_shared(services: NodeServices, device: Path) -> None:
    """Mounted once for both pods, and unmounted after the last; the next pod finds what was written."""
    for uid in ("uid-1", "uid-2"):
        await local.PERSISTENT.mount(of_pod(services, uid), persistent(device))
    assert await disk_format(device) == "ext4"
    (target(services) / "file").write_text("x")
    assert (target(services, "uid-2") / "file").read_text() == "x"
    await local.PERSISTENT.unmount(of_pod(services), block=False)
    assert mounts.is_mount_point(global_point(services))
    for _ in range(2):
        await local.PERSISTENT.unmount(of_pod(services, "uid-2"), block=False)
        assert not global_point(services).exists()
    await local.PERSISTENT.mount(of_pod(services, "uid-3"), persistent(device))
    assert (target(services, "uid-3") / "file").read_text() == "x"
    await local.PERSISTENT.unmount(of_pod(services, "uid-3"), block=False)


async def test_a_device_is_not_formatted_for_reading(services: NodeServices, device: Path) -> None:
    """It would be empty."""
    with pytest.raises(VolumeFailed, match="cannot mount unformatted disk"):
        await local.PERSISTENT.mount(of_pod(services), persistent(device, read_only=True))
    assert await disk_format(device) == ""


async def test_a_device_with_partitions_is_not_formatted(services: NodeServices, device: Path) -> None:
    """Existing data stays."""
    with device.open("r+b") as disk:
        disk.seek(446)
        disk.write(bytes([0, 0, 2, 0, 0x83, 0, 3, 0, *(1).to_bytes(4, "little"), *(2048).to_bytes(4, "little")]))
        disk.seek(510)
        disk.write(b"\x55\xaa")
    assert await disk_format(device) == "unknown data, probably partitions"
    with pytest.raises(
        VolumeFailed, match=r"mount failed: exit status 32 \(the disk holds unknown data, probably partitions\)"
    ):
        await local.PERSISTENT.mount(of_pod(services), persistent(device))
    assert not global_point(services).exists()


async def test_a_file_system_that_nobody_makes_here(services: NodeServices, device: Path) -> None:
    """The message names the package."""
    with pytest.raises(VolumeFailed, match=r"mkfs\.nofs is not on this node"):
        await local.PERSISTENT.mount(replace(of_pod(services)), persistent(device, kind="nofs"))
