"""Undo what is mounted of a pod of which nobody remembers the spec: its workflow and its manifest are gone.

Asked by the janitor, before the pod's folders are removed. Only what holds nothing that outlives a pod is undone: the mounts
of subPaths, and the volumes in memory. Any other mount stays, and with it the folders, for whose it is nobody knows.
"""

from pathlib import Path
from typing import Final

from activities.files import mounts
from activities.volumes.subpaths import unmount_sub_paths

_IN_MEMORY: Final = frozenset({"tmpfs", "hugetlbfs"})


def unmount_leftovers(pod: Path) -> None:
    """Undo them below a pod's directory (`pods/<uid>`). Raises OSError, with EBUSY while somebody uses one."""
    unmount_sub_paths(pod)
    for point in map(Path, mounts.mounts_below(pod / "volumes")):
        found = mounts.mount_at(point)
        is_volume = point.parents[1].name == "volumes" and point.parents[1].parent.name == pod.name
        if found and found.kind in _IN_MEMORY and is_volume:
            mounts.unmount(point)
