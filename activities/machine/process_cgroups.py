"""Which cgroups processes of the node are in, and moving them there, by files alone: also under systemd, as the kubelet does.

Called by `worker/host/cgroups/system_cgroups.py`; `worker/stats` asks where they are. Everything may block for milliseconds: call it in a thread.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.machine.cgroup_files import make_unified
from activities.machine.cgroup_hierarchies import Hierarchies

_PROC: Final = Path("/proc")
_MEMBERS: Final = "cgroup.procs"
_CPUSET: Final = ("cpuset.cpus", "cpuset.mems")


class ProcessCgroups:
    """The cgroups of this machine's processes."""

    def __init__(self, hierarchies: Hierarchies, proc: Path = _PROC) -> None:
        """Take where cgroups are mounted, and the processes."""
        self._hierarchies, self._proc = hierarchies, proc

    def move(self, pid: int, cgroup: str) -> bool:
        """Move a process into a cgroup, which is made if it is missing; returns whether it was elsewhere. Raises OSError."""
        moved = False
        for root in self._roots():
            folder = root / cgroup.lstrip("/")
            self._make(root, folder)
            if str(pid) not in (folder / _MEMBERS).read_text().split():
                (folder / _MEMBERS).write_text(str(pid))
                moved = True
        return moved

    def of(self, pid: int) -> str:
        """Return the one cgroup in which CPU and memory of a process are counted; empty if there is none. Raises OSError."""
        text = (self._proc / str(pid) / "cgroup").read_text()
        return counting_cgroup(text, unified=self._hierarchies.v2 is not None)

    def in_none(self) -> list[int]:
        """List the processes that are in the root cgroup; without the first one and the kernel's. Raises OSError."""
        root = self._hierarchies.v2 or self._hierarchies.v1["cpu"]
        pids = (int(line) for line in (root / _MEMBERS).read_text().split())
        return [pid for pid in pids if pid > 1 and self._has_program(pid)]

    def _roots(self) -> Iterator[Path]:
        """Yield the hierarchies; of a hybrid node only those of v1, because systemd alone uses the other."""
        if self._hierarchies.v2:
            yield self._hierarchies.v2
            return
        yield from dict.fromkeys(place for name, place in self._hierarchies.v1.items() if not _is_unified(place))

    def _make(self, root: Path, folder: Path) -> None:
        if self._hierarchies.v2:
            make_unified(root, folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        if root == self._hierarchies.v1.get("cpuset"):  # which takes no process without processors
            for one in (*reversed(folder.relative_to(root).parents[:-1]), folder.relative_to(root)):
                _inherit(root / one)

    def _has_program(self, pid: int) -> bool:
        """Report whether a process runs a program, which the kernel's threads do not."""
        with contextlib.suppress(OSError):
            return bool((self._proc / str(pid) / "exe").readlink())
        return False


def counting_cgroup(text: str, *, unified: bool) -> str:
    """Choose the cgroup of a process by its /proc/PID/cgroup, as the kubelet does (cm/container_manager_linux.go getContainer).

    On v1, CPU and memory must be counted in the same one, and systemd's counts if there is one. Empty: none, or one that
    this process does not see (outside of its cgroup namespace).
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, names, place = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), place))
    if unified:
        chosen = found.get("", "")
    elif "cpu" not in found or found["cpu"] != found.get("memory"):
        chosen = ""
    else:
        chosen = found.get("name=systemd", found["cpu"])
    return "" if ".." in chosen.split("/") else chosen


def _is_unified(place: Path) -> bool:
    return (place / "cgroup.controllers").exists()


def _inherit(folder: Path) -> None:
    """Give a cpuset what its parent has, where it has nothing."""
    for name in _CPUSET:
        if not (folder / name).read_text().strip():
            (folder / name).write_text((folder.parent / name).read_text())
