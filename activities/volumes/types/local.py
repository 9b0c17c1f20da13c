"""local: a folder or block device of this node as a PersistentVolume (pkg/volume/local).

A folder is bind-mounted into its pods. A device is mounted once for all pods below
`plugins/kubernetes.io/local-volume/mounts`, formatted first if it is empty, and unmounted after the last pod. With
volumeMode Block, containers get the device itself.
"""

import asyncio
import contextlib
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from activities.files import mounts
from activities.volumes.disks.mounting import bind_into_pod, mount_disk, other_mounts, unmount_and_remove
from activities.volumes.plugin.persistent_type import PersistentType, PersistentVolume
from activities.volumes.plugin.table import plugin_of
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeFailed
from proto.temporal.mounted import MountedVolume

PLUGIN: Final = plugin_of("local")


class PersistentLocal:
    """local PersistentVolumes."""

    takes_mount_options = True
    takes_block = True

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Bind the folder or the device's file system into the pod, or return the device."""
        path = Path(_path_of(persistent))
        mode = await asyncio.to_thread(_mode_of, path)
        if persistent.block:
            if not stat.S_ISBLK(mode):
                raise VolumeFailed(f"PV {persistent.name} has volumeMode Block, and {path} is not a block device")
            return Mounted(
                MountedVolume(volume.name, str(path), device=True, read_only=persistent.read_only), found=True
            )
        if stat.S_ISDIR(mode):
            return await _show(volume, path, persistent, persistent.mount_options)
        if not stat.S_ISBLK(mode):
            raise VolumeFailed("only directory and block device are supported")
        point = _global_point(volume)
        async with volume.services.locks.hold(str(point)):
            kind = persistent.source.get("fsType") or ""
            options = [*persistent.mount_options, *(["ro"] if persistent.read_only else [])]
            await mount_disk(path, point, str(kind), options)
            return await _show(volume, point, persistent)

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:
        """Unmount it from the pod; unmount a device that no other pod uses."""
        if block:
            return
        await asyncio.to_thread(unmount_and_remove, volume.directory(PLUGIN))
        point = _global_point(volume)
        async with volume.services.locks.hold(str(point)):
            await asyncio.to_thread(_unmount_unused, point, volume.services.settings.root_dir / "pods")


def _path_of(persistent: PersistentVolume) -> str:
    path: Any = persistent.source.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise VolumeFailed(f"PV {persistent.name}: spec.local.path must be an absolute path")
    if ".." in path.split("/"):
        raise VolumeFailed(f"invalid path: {path} must not contain '..'")
    return path


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        raise VolumeFailed(f'path "{path}" does not exist') from None


def _global_point(volume: PodVolume) -> Path:
    """Return the path where a device is mounted for all pods; the volume has the PersistentVolume's name here."""
    directory = volume.directory(PLUGIN)
    return volume.services.settings.root_dir / "plugins" / PLUGIN / "mounts" / directory.name


async def _show(volume: PodVolume, source: Path, persistent: PersistentVolume, options: Sequence[str] = ()) -> Mounted:
    """Bind it into the pod; only its first pod's fsGroup is applied, because others may be using it."""
    target, read_only = volume.directory(PLUGIN), persistent.read_only
    found = await bind_into_pod(source, target, options=options, read_only=read_only)
    others = await asyncio.to_thread(other_mounts, target, volume.services.settings.root_dir / "pods")
    mounted = MountedVolume(volume.name, str(target), read_only=read_only, selinux_relabel=True)
    return Mounted(mounted, found=found, needs_fs_group=not read_only and not others)


def _unmount_unused(point: Path, pods: Path) -> None:
    """Unmount a device that no pod uses."""
    if mounts.is_mount_point(point) and not other_mounts(point, pods):
        mounts.unmount(point)
    if not mounts.is_mount_point(point):
        with contextlib.suppress(FileNotFoundError):
            point.rmdir()


PERSISTENT: Final[PersistentType] = PersistentLocal()
