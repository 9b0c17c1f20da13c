"""Volumes of orphaned pods: the workflow and the manifest are gone, and only the pod's folder is left.

The janitor removes such a folder. It runs in the poller, so it must neither wait for a server that does not answer nor call a
driver. It unmounts what takes one call only (subPaths and volumes in memory), marks a folder that still has volumes, and
leaves it. The worker unmounts the volumes of marked folders by their types (`worker/host/orphaned_volumes.py`), and the
janitor's next try removes the folder. Imports no volume type, to keep the poller small. Everything here blocks on files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from activities.files import mounts
from activities.files.pod_paths import plugin_folder
from activities.volumes.csi.records.layout import DATA
from activities.volumes.plugin.table import VOLUME_PLUGINS, Undo
from activities.volumes.subpaths import unmount_sub_paths

_MARK: Final = "plugins/tempolet.dev~orphaned"
_MODE: Final = 0o750
_IN_MEMORY: Final = frozenset({"tmpfs", "hugetlbfs"})
_DEVICES: Final = "volumeDevices"
_TRACES: Final = {
    Undo.BY_FOLDER: ("volumes/{plugin}/*",),
    Undo.BY_RECORD: ("plugins/{plugin}/*.json",),
    Undo.BY_DRIVER: ("volumes/{plugin}/*/" + DATA, _DEVICES + "/{plugin}/*"),
}
"""What tells, in a pod's folder, that a volume is there; `*` is its name."""


class VolumesLeft(Exception):
    """An orphaned pod's folder still has volumes that the worker has to unmount."""


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


def unmount_memory_volumes(pod: Path) -> None:
    """Unmount the subPaths and the volumes in memory of a pod's folder. Raises OSError, with EBUSY while one is in use.

    Any other mount stays, and with it the folder: it may hold what outlives the pod.
    """
    unmount_sub_paths(pod)
    plugins = {plugin_folder(row.plugin) for row in VOLUME_PLUGINS.values() if row.undo is Undo.UNMOUNT_MEMORY}
    for point in map(Path, mounts.mounts_below(pod / "volumes")):
        found = mounts.mount_at(point)
        folder = point.parent
        is_volume = folder.name in plugins and folder.parent.name == "volumes" and folder.parents[1].name == pod.name
        if found and found.kind in _IN_MEMORY and is_volume:
            mounts.unmount(point)


def leave_to_worker(pod: Path) -> None:
    """Mark a pod's folder while such volumes are in it. Raises VolumesLeft then, and OSError."""
    names = sorted({one.name for one in orphaned_volumes(pod)})
    if names:
        mark = pod / _MARK
        mark.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
        mark.touch()
        raise VolumesLeft(f"its volumes ({', '.join(names)}) are being unmounted")


def marked_pods(root_dir: Path) -> Iterator[Path]:
    """List the folders of marked pods."""
    yield from (mark.parents[1] for mark in sorted((root_dir / "pods").glob(f"*/{_MARK}")))


def is_marked(pod: Path) -> bool:
    """Say whether a pod's folder is marked."""
    return (pod / _MARK).exists()


def unmark(pod: Path) -> None:
    """Remove the mark: the pod has a workflow again, which mounts. Raises OSError."""
    (pod / _MARK).unlink(missing_ok=True)
