"""nfs: a folder of a server, mounted by the node's mount.nfs (pkg/volume/nfs).

A server may hang without end, so only programs that can be killed mount and unmount; this process never enters the
mount and looks for it in the mount table. An unmount that hangs is forced, as the kubelet does.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from activities.execution.programs import ProgramMissing, ProgramTimedOut, run
from activities.files import mounts
from activities.volumes.plugin.persistent_type import PersistentType, PersistentVolume
from activities.volumes.plugin.table import plugin_of
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeFailed, VolumeType
from proto.temporal.mounted import MountedVolume

PLUGIN: Final = plugin_of("nfs")
_HELPER: Final = "mount.nfs"
_MOUNT_WITHIN: Final = 180.0
"""Seconds. mount.nfs itself gives up after two minutes."""
_UNMOUNT_WITHIN: Final = 60.0
_MODE: Final = 0o750


class Nfs:
    """nfs volumes in a pod's spec."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Mount it unless it is in the mount table."""
        source = volume.source
        return await _show(volume, export(source["server"], source["path"]), read_only=bool(source.get("readOnly")))

    async def unmount(self, volume: PodVolume) -> None:
        """Unmount it, by force if its server does not answer, and remove the empty folder."""
        await _hide(volume.directory(PLUGIN))


class PersistentNfs:
    """nfs PersistentVolumes."""

    takes_mount_options = True
    takes_block = False

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Mount it with the PersistentVolume's options unless it is in the mount table."""
        server, path = persistent.source.get("server"), persistent.source.get("path")
        if not (isinstance(server, str) and server and isinstance(path, str) and path.startswith("/")):
            raise VolumeFailed(f"PV {persistent.name}: spec.nfs needs a server, and a path that is absolute")
        options, read_only = persistent.mount_options, persistent.read_only
        return await _show(volume, export(server, path), options=options, read_only=read_only)

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:  # noqa: ARG002 - it is never a device
        """Unmount it, by force if its server does not answer, and remove the empty folder."""
        await _hide(volume.directory(PLUGIN))


def export(server: str, path: str) -> str:
    """Return server and path as mount.nfs takes them, with an IPv6 address in brackets."""
    try:
        in_brackets = ipaddress.ip_address(server).version == 6
    except ValueError:
        in_brackets = False
    return f"[{server}]:{path}" if in_brackets else f"{server}:{path}"


def join_options(options: Sequence[str]) -> list[str]:
    """Sort options and remove duplicates (pkg/volume/util JoinMountOptions)."""
    return sorted({one for option in options for one in option.split(",") if one})


async def _show(volume: PodVolume, source: str, *, options: Sequence[str] = (), read_only: bool) -> Mounted:
    target = volume.directory(PLUGIN)
    mounted = MountedVolume(volume.name, str(target), read_only=read_only)
    if await asyncio.to_thread(mounts.mount_at, target):
        return Mounted(mounted, found=True)
    await asyncio.to_thread(target.mkdir, _MODE, parents=True, exist_ok=True)
    try:
        await _mount(source, target, join_options([*options, *(["ro"] if read_only else [])]))
    except (VolumeFailed, asyncio.CancelledError):
        await asyncio.shield(_tidy(target))
        raise
    return Mounted(mounted)


async def _hide(target: Path) -> None:
    if await asyncio.to_thread(mounts.mount_at, target):
        await _unmount(target)
    if await asyncio.to_thread(mounts.mount_at, target):
        raise VolumeFailed(f"failed to cleanup mount point {target}: it is mounted more than once")
    await asyncio.to_thread(_remove, target)


async def _mount(source: str, target: Path, options: Sequence[str]) -> None:
    words = [source, str(target), *(["-o", ",".join(options)] if options else [])]
    try:
        ended = await run((_HELPER, *words), _MOUNT_WITHIN)
    except (ProgramMissing, ProgramTimedOut) as error:
        raise VolumeFailed(f"mount failed: {error}") from error
    if ended.code != 0:
        raise VolumeFailed(
            f"mount failed: {ended.outcome}\nMounting command: {_HELPER}\nMounting arguments: {' '.join(words)}\n"
            f"Output: {ended.output}"
        )


async def _unmount(target: Path) -> None:
    """Unmount it; force only an unmount that hangs, not one that is busy."""
    try:
        try:
            ended = await run(("umount", str(target)), _UNMOUNT_WITHIN)
        except ProgramTimedOut:
            ended = await run(("umount", "-f", str(target)), _UNMOUNT_WITHIN)
    except (ProgramMissing, ProgramTimedOut) as error:
        raise VolumeFailed(f"unmount failed: {error}") from error
    if ended.code != 0:
        raise VolumeFailed(f"unmount failed: {ended.outcome}\nUnmounting arguments: {target}\nOutput: {ended.output}")


async def _tidy(target: Path) -> None:
    """Undo a mount that a killed program may have made."""
    with contextlib.suppress(VolumeFailed, OSError):
        if await asyncio.to_thread(mounts.mount_at, target):
            await _unmount(target)
        await asyncio.to_thread(_remove, target)


def _remove(target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.rmdir()


TYPE: Final[VolumeType] = Nfs()
PERSISTENT: Final[PersistentType] = PersistentNfs()
