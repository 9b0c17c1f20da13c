"""Mounts a block device of the node: detects its format, formats it if it is empty, checks it, mounts it.

Used by volume types whose device is on the node (local) or was attached to it (iscsi, fc). A device that holds
anything at all is never formatted; one that is mounted read-only is neither formatted nor repaired. The programs are
the node's own (`programs`). Source: k8s.io/mount-utils mount_linux.go formatAndMountSensitive, getDiskFormat,
checkAndRepairFilesystem.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from activities.execution.programs import Ended, ProgramMissing, ProgramTimedOut, run
from activities.files import mounts
from activities.volumes.plugin.volume_type import VolumeFailed

DEFAULT_KIND: Final = "ext4"
_UNFORMATTED: Final = 2
"""Exit code of blkid."""
_UNCORRECTED: Final = 4
"""Exit code of fsck: errors remain."""
_PARTITIONS: Final = "unknown data, probably partitions"
_LOOK_WITHIN: Final = 30.0
_FORMAT_WITHIN: Final = 200.0
_MOUNT_WITHIN: Final = 60.0
_MODE: Final = 0o750


async def mount_disk(device: Path, target: Path, kind: str, options: Sequence[str]) -> None:
    """Mount a device's file system, formatting an empty device; a mounted one stays. Raises VolumeFailed, OSError."""
    if await asyncio.to_thread(mounts.is_mount_point, target):
        return
    kind, read_only = kind or DEFAULT_KIND, "ro" in options
    found = await disk_format(device)
    if not found and read_only:
        raise VolumeFailed(f"cannot mount unformatted disk {device} as we are manipulating it in read-only mode")
    if not found:
        await _format(device, kind)
    elif not read_only:
        await _check(device)
    await asyncio.to_thread(target.mkdir, _MODE, parents=True, exist_ok=True)
    words = ["-t", kind, "-o", ",".join([*options, "defaults"]), str(device), str(target)]
    ended = await _run("mount", *words, within=_MOUNT_WITHIN)
    if ended.code != 0:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(target.rmdir)
        mismatch = f" (the disk holds {found})" if found and found != kind else ""
        raise VolumeFailed(
            f"mount failed: {ended.outcome}{mismatch}\nMounting command: mount\nMounting arguments: {' '.join(words)}\n"
            f"Output: {ended.output}"
        )


async def bind_into_pod(source: Path, target: Path, *, options: Sequence[str] = (), read_only: bool) -> bool:
    """Bind a folder into a pod, with options of this mount; returns whether it was there. Raises OSError, VolumeFailed.

    The options are applied to an existing mount again, because an earlier try may have died before it applied them.
    """
    found = await asyncio.to_thread(mounts.is_mount_point, target)
    if not found:
        await asyncio.to_thread(target.mkdir, _MODE, parents=True, exist_ok=True)
        await asyncio.to_thread(mounts.bind, source, target, read_only=read_only and not options)
    elif read_only and not options:
        await asyncio.to_thread(mounts.make_read_only, target)
    if options:
        try:
            await _remount(target, ",".join(["bind", "remount", *options, *(["ro"] if read_only else [])]))
        except VolumeFailed:
            if not found:
                await asyncio.to_thread(mounts.unmount, target)
            raise
    return found


async def _remount(target: Path, options: str) -> None:
    ended = await _run("mount", "-o", options, str(target), within=_MOUNT_WITHIN)
    if ended.code != 0:
        raise VolumeFailed(
            f"mount failed: {ended.outcome}\nMounting command: mount\nMounting arguments: -o {options} {target}\n"
            f"Output: {ended.output}"
        )


def unmount_and_remove(target: Path) -> None:
    """Undo `show` or the mount of a disk; a missing one is fine. Blocks on files; raises OSError."""
    mounts.unmount(target)
    with contextlib.suppress(FileNotFoundError):
        target.rmdir()


def other_mounts(point: Path, below: Path) -> list[str]:
    """List the other mounts, below a folder, of the file system that is mounted at a point."""
    own = mounts.mount_at(point)
    if own is None:
        return []
    same = [one.point for one in mounts.mount_table() if (one.device, one.root) == (own.device, own.root)]
    return [one for one in same if one != own.point and Path(one).is_relative_to(below.resolve())]


async def disk_format(device: Path) -> str:
    """Return the file system on a device, or that it is partitioned; empty if it holds nothing. Raises VolumeFailed."""
    ended = await _run("blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", str(device), within=_LOOK_WITHIN)
    if ended.code == _UNFORMATTED:
        return ""
    if ended.code != 0:
        raise VolumeFailed(f"failed to get disk format of disk {device}: {ended.outcome}\nOutput: {ended.output}")
    properties = dict(line.partition("=")[::2] for line in ended.output.splitlines())
    return _PARTITIONS if properties.get("PTTYPE") else properties.get("TYPE", "")


async def _format(device: Path, kind: str) -> None:
    forced = {"ext3": ["-F", "-m0"], "ext4": ["-F", "-m0"], "xfs": ["-f"]}.get(kind, [])
    ended = await _run(f"mkfs.{kind}", *forced, str(device), within=_FORMAT_WITHIN)
    if ended.code != 0:
        raise VolumeFailed(
            f'format of disk "{device}" failed: type:("{kind}") errcode:({ended.outcome}) output:({ended.output})'
        )


async def _check(device: Path) -> None:
    """Repair the file system as far as possible; without fsck on the node, continue, as the kubelet does."""
    try:
        ended = await run(("fsck", "-a", str(device)), _FORMAT_WITHIN)
    except ProgramMissing:
        return
    except ProgramTimedOut as error:
        raise VolumeFailed(f"'fsck' on device {device}: {error}") from error
    if ended.code == _UNCORRECTED:
        raise VolumeFailed(f"'fsck' found errors on device {device} but could not correct them: {ended.output}")


async def _run(*words: str, within: float) -> Ended:
    try:
        return await run(words, within)
    except (ProgramMissing, ProgramTimedOut) as error:
        raise VolumeFailed(str(error)) from error
