"""The mounts and disks of a pod that nobody remembers, where undoing them takes a program or more than one call.

A server's folder, a folder or disk of the node, disks of a network. The janitor, which removes such a pod, runs in another
process and must not wait for a server that keeps silent. It marks the pod's folder and leaves it; the process that mounts
undoes what lies there, and the janitor's next try removes the folder (as `csi.left_behind` does it for CSI drivers). Blocks on
files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.volumes.csi.records.layout import VolumesLeft

_MARK: Final = "plugins/tempolet.dev~forsaken-mounts"
_MODE: Final = 0o750
_SHOWN: Final = ("nfs", "local-volume")
_RECORDED: Final = ("iscsi", "fc")


def mounts_of(pod: Path) -> list[tuple[str, str]]:
    """List what is to be undone by a pod's folder, `<root-dir>/pods/<uid>`: the plugin's short name and the volume's."""
    shown = [(kind, one.name) for kind in _SHOWN for one in pod.glob(f"volumes/kubernetes.io~{kind}/*")]
    recorded = [(kind, one.stem) for kind in _RECORDED for one in pod.glob(f"plugins/kubernetes.io~{kind}/*.json")]
    return sorted({*shown, *recorded})


def leave_mounts_to_the_worker(pod: Path) -> None:
    """Mark a pod's folder while such volumes are in it. Raises VolumesLeft then, and OSError."""
    left = mounts_of(pod)
    if left:
        mark = pod / _MARK
        mark.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
        mark.touch()
        raise VolumesLeft(f"its volumes ({', '.join(name for _, name in left)}) are being unmounted")


def marked(root_dir: Path) -> Iterator[Path]:
    """List the folders of marked pods."""
    yield from (mark.parents[1] for mark in sorted((root_dir / "pods").glob(f"*/{_MARK}")))


def is_marked(pod: Path) -> bool:
    """Say whether a pod's folder still is."""
    return (pod / _MARK).exists()


def mounts_again(pod: Path) -> None:
    """Take the mark away: the pod has a workflow, which mounts. Raises OSError."""
    (pod / _MARK).unlink(missing_ok=True)
