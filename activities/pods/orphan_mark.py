"""The mark on the folder of an orphaned pod, by which the poller leaves to the worker what only the worker can undo.

The poller finds orphaned pods, and removes their files (`worker/poller/runtime/orphaned_pods.py`). Its unit may neither mount nor kill, and
sees cgroups read-only. So it marks the folder of a pod that still has a cgroup or volumes; the worker undoes these
(`worker/host/orphaned_pods.py`), and the poller's next try removes the folder. A pod that is started again loses its mark first.
Blocks on files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MARK: Final = "plugins/tempolet.dev~orphaned"
_MODE: Final = 0o750


def cgroup_lock(uid: str) -> str:
    """Return the name of the lock under which a pod's cgroup is made for a start, or removed because of the mark."""
    return f"{uid}//cgroup"


def mark(pod: Path) -> None:
    """Mark a pod's folder, `<root-dir>/pods/<uid>`, which is made if it is missing. Raises OSError."""
    place = pod / _MARK
    place.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    place.touch()


def marked_pods(root_dir: Path) -> Iterator[Path]:
    """List the folders of marked pods."""
    yield from (one.parents[1] for one in sorted((root_dir / "pods").glob(f"*/{_MARK}")))


def is_marked(pod: Path) -> bool:
    """Say whether a pod's folder is marked."""
    return (pod / _MARK).exists()


def unmark(pod: Path) -> None:
    """Remove the mark: the pod has a workflow again. Raises OSError."""
    (pod / _MARK).unlink(missing_ok=True)
