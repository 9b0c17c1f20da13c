"""The mark on a pod's folder whose CSI volumes are to be given back: nobody remembers the pod any more.

The janitor, which removes such a pod, runs in another process and speaks to no driver. It marks the folder and leaves it; the
process that mounts finds the mark (`forsaken`), takes the volumes back by what was written down of them, and the janitor's next
try removes the folder. Imports nothing of the room, for the poller has to stay small. All of it blocks on files.
"""

from pathlib import Path
from typing import Final

ESCAPED_PLUGIN: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"
MARK: Final = "plugins/tempolet.dev~forsaken"
_MODE: Final = 0o750


class VolumesLeft(Exception):
    """A pod's folder still holds what its CSI volumes are undone by."""


def files_of(pod: Path) -> list[str]:
    """Name the CSI volumes with files that a pod has by its folder, `<root-dir>/pods/<uid>`."""
    return sorted(data.parent.name for data in pod.glob(f"volumes/{ESCAPED_PLUGIN}/*/{DATA}"))


def devices_of(pod: Path) -> list[str]:
    """Name those that are devices."""
    return sorted(link.name for link in pod.glob(f"volumeDevices/{ESCAPED_PLUGIN}/*"))


def leave_to_the_worker(pod: Path) -> None:
    """Mark a pod's folder while CSI volumes are in it. Raises VolumesLeft then, and OSError."""
    names = ", ".join((*files_of(pod), *devices_of(pod)))
    if not names:
        return
    mark = pod / MARK
    mark.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    mark.touch()
    raise VolumesLeft(f"its CSI volumes ({names}) are being given back to their drivers")


def remembered_again(root_dir: Path, pod_uid: str) -> None:
    """Take the mark away: the pod has a workflow, which mounts. Raises OSError."""
    (root_dir / "pods" / pod_uid / MARK).unlink(missing_ok=True)
