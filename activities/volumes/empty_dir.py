"""emptyDir: a folder that lives as long as its pod (pkg/volume/emptydir).

On disk it is a folder of the pod's own, found again by its name: what containers have written stays, whatever restarts.
"""

import asyncio
from pathlib import Path
from typing import Final

from activities.file_trees import remove_tree
from activities.volumes.volume_type import Mounted, PodVolume
from proto.temporal.mounted import MountedVolume

PLUGIN: Final = "kubernetes.io/empty-dir"
_MODE: Final = 0o777


class EmptyDir:
    """emptyDir volumes."""

    takes_fs_group = True

    async def mount(self, volume: PodVolume) -> Mounted:
        """Find its folder or make it."""
        directory = volume.directory(PLUGIN)
        found = await asyncio.to_thread(_make, directory)
        return Mounted(MountedVolume(volume.name, str(directory), selinux_relabel=True), found)

    async def unmount(self, volume: PodVolume) -> None:
        """Remove it with all that is in it."""
        await asyncio.to_thread(remove_tree, volume.directory(PLUGIN))


def _make(directory: Path) -> bool:
    """Make the folder, writable for everybody; answers whether it was there."""
    found = directory.is_dir() and not directory.is_symlink()
    directory.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if not found:
        directory.mkdir(exist_ok=True)
    if directory.stat(follow_symlinks=False).st_mode & 0o777 != _MODE:
        directory.chmod(_MODE)
    return found


TYPE: Final = EmptyDir()
