"""hostPath: a file or folder of the node (pkg/volume/hostpath).

It is checked, created if its type says so, and otherwise never changed: owner, mode and label stay, and nothing is
removed with the pod.
"""

import asyncio
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from activities.volumes.plugin.persistent_type import PersistentType, PersistentVolume
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeFailed, VolumeType
from proto.temporal.mounted import MountedVolume

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_KINDS: Final[Mapping[str, tuple[str, Callable[[int], bool]]]] = {
    "DirectoryOrCreate": ("directory", stat.S_ISDIR),
    "Directory": ("directory", stat.S_ISDIR),
    "FileOrCreate": ("file", stat.S_ISREG),
    "File": ("file", stat.S_ISREG),
    "Socket": ("socket file", stat.S_ISSOCK),
    "CharDevice": ("character device", stat.S_ISCHR),
    "BlockDevice": ("block device", stat.S_ISBLK),
}

TYPES: Final = ("", *_KINDS)
"""The valid values of a hostPath's type."""


class HostPath:
    """hostPath volumes."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Check that the path is what its type says."""
        path = str(volume.source["path"])
        await asyncio.to_thread(check, Path(path), volume.source.get("type") or "")
        return Mounted(MountedVolume(volume.name, path), found=True)

    async def unmount(self, volume: PodVolume) -> None:
        """Do nothing: the path stays."""


def check(path: Path, kind: str) -> None:
    """Check a path against its type, and create it if the type says so; links are followed.

    Without a type nothing is checked, and the runtime creates a missing folder. Raises VolumeFailed and OSError.
    """
    if not kind:
        return
    if kind.endswith("OrCreate"):
        _make(path, kind)
    what, is_kind = _KINDS[kind]
    try:
        mode = path.stat().st_mode
    except OSError:
        mode = 0
    if not is_kind(mode):
        raise VolumeFailed(f"hostPath type check failed: {path} is not a {what}")


def _make(path: Path, kind: str) -> None:
    if path.exists():
        return
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    else:  # its parent must exist
        path.touch(mode=_FILE_MODE)


class PersistentHostPath:
    """hostPath PersistentVolumes, for nodes without other storage (pkg/volume/hostpath)."""

    takes_mount_options = False
    takes_block = False

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Check that the path is what its type says."""
        path, kind = persistent.source.get("path"), persistent.source.get("type") or ""
        if not isinstance(path, str) or not path.startswith("/") or ".." in path.split("/"):
            raise VolumeFailed(f"PV {persistent.name}: spec.hostPath.path must be an absolute path without '..'")
        if kind not in TYPES:
            raise VolumeFailed(f"PV {persistent.name}: spec.hostPath.type {str(kind)[:64]!r} is not known")
        return await TYPE.mount(replace(volume, source={"path": path, "type": kind}))

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:
        """Do nothing: the path stays."""


TYPE: Final[VolumeType] = HostPath()
PERSISTENT: Final[PersistentType] = PersistentHostPath()
