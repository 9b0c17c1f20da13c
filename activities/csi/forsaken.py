"""The CSI volumes of a pod that nobody remembers: its workflow and its manifest are gone, and what they left is mounted.

The janitor, which removes such a pod, runs in another process and speaks to no driver. It only marks the pod's folder, and
leaves it: the process that mounts finds the mark, takes the volumes back by what was written down of them, and then the
janitor's next try removes the folder. All of it blocks on files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.csi.block_places import BlockPlace
from activities.csi.places import DATA, ESCAPED_PLUGIN, FilesPlace, Place

_MARK: Final = "plugins/tempolet.dev~forsaken"
_MODE: Final = 0o750


class VolumesLeft(Exception):
    """A pod's folder still holds what its CSI volumes are undone by."""


def places_of(pod: Path) -> Iterator[Place]:
    """List the CSI volumes of a pod by its folder, `<root-dir>/pods/<uid>`."""
    root_dir, uid = pod.parents[1], pod.name
    for data in sorted(pod.glob(f"volumes/{ESCAPED_PLUGIN}/*/{DATA}")):
        yield FilesPlace(root_dir, uid, data.parent.name)
    for link in sorted(pod.glob(f"volumeDevices/{ESCAPED_PLUGIN}/*")):
        yield BlockPlace(root_dir, uid, link.name)


def leave_to_the_worker(pod: Path) -> None:
    """Mark a pod's folder while CSI volumes are in it. Raises VolumesLeft then, and OSError."""
    names = ", ".join(one.shown.parent.name if one.shown.name == "mount" else one.shown.name for one in places_of(pod))
    if not names:
        return
    mark = pod / _MARK
    mark.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    mark.touch()
    raise VolumesLeft(f"its CSI volumes ({names}) are being given back to their drivers")


def forsaken(root_dir: Path) -> Iterator[Place]:
    """List the CSI volumes of every marked pod."""
    for mark in sorted((root_dir / "pods").glob(f"*/{_MARK}")):
        yield from places_of(mark.parents[1])


def remembered_again(root_dir: Path, pod_uid: str) -> None:
    """Take the mark away: the pod has a workflow, which mounts. Raises OSError."""
    (root_dir / "pods" / pod_uid / _MARK).unlink(missing_ok=True)
