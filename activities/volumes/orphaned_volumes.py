"""Volumes of orphaned pods: the workflow and the manifest are gone, and only the pod's folder is left.

The poller looks for them before it removes such a folder (`held_volumes`), and leaves them to the worker (`activities/pods/orphan_mark.py`),
which unmounts what takes one call only here, and the others by their types (`worker/host/orphaned_pods.py`). Imports no volume
type, to keep the poller small. Everything here blocks on files.
"""

from pathlib import Path
from typing import Final, NamedTuple

from activities.files import mounts
from activities.files.pod_paths import plugin_folder
from activities.volumes.csi.records.layout import DATA
from activities.volumes.plugin.table import VOLUME_PLUGINS, Undo
from activities.volumes.subpaths import FOLDER as SUB_PATHS
from activities.volumes.subpaths import unmount_sub_paths

_IN_MEMORY: Final = frozenset({"tmpfs", "hugetlbfs"})
_DEVICES: Final = "volumeDevices"
_TRACES: Final = {
    Undo.BY_FOLDER: ("volumes/{plugin}/*",),
    Undo.BY_RECORD: ("plugins/{plugin}/*.json",),
    Undo.BY_DRIVER: ("volumes/{plugin}/*/" + DATA, _DEVICES + "/{plugin}/*"),
}
"""What tells, in a pod's folder, that a volume is there; `*` is its name."""


class OrphanedVolume(NamedTuple):
    """A volume of an orphaned pod."""

    kind: str
    name: str
    block: bool = False


def orphaned_volumes(pod: Path) -> list[OrphanedVolume]:
    """List the volumes in a pod's folder, `<root-dir>/pods/<uid>`, that their types have to unmount."""
    found = []
    for kind, row in VOLUME_PLUGINS.items():
        for trace in _TRACES.get(row.undo, ()):
            pattern = trace.format(plugin=plugin_folder(row.plugin))
            found += [
                OrphanedVolume(kind, one.relative_to(pod).parts[2].removesuffix(".json"), trace.startswith(_DEVICES))
                for one in pod.glob(pattern)
            ]
    return sorted(found)


def held_volumes(pod: Path) -> list[str]:
    """Name the volumes of a pod's folder that have to be unmounted; `subPath` for those parts of volumes that are."""
    names = {one.name for one in orphaned_volumes(pod)} | {one.name for one in _memory_volumes(pod)}
    return [*sorted(names), *(["subPath"] if mounts.mounts_below(pod / SUB_PATHS) else [])]


def unmount_memory_volumes(pod: Path) -> None:
    """Unmount the subPaths and the volumes in memory of a pod's folder. Raises OSError, with EBUSY while one is in use.

    Any other mount stays, and with it the folder: it may hold what outlives the pod.
    """
    unmount_sub_paths(pod)
    for point in _memory_volumes(pod):
        mounts.unmount(point)


def _memory_volumes(pod: Path) -> list[Path]:
    """List where a pod's volumes in memory are mounted; not what a container has mounted inside one."""
    plugins = {plugin_folder(row.plugin) for row in VOLUME_PLUGINS.values() if row.undo is Undo.UNMOUNT_MEMORY}
    points = []
    for point in map(Path, mounts.mounts_below(pod / "volumes")):
        found, folder = mounts.mount_at(point), point.parent
        is_volume = folder.name in plugins and folder.parent.name == "volumes" and folder.parents[1].name == pod.name
        if found and found.kind in _IN_MEMORY and is_volume:
            points.append(point)
    return points
