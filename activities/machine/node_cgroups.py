"""The cgroups above and beside the pods: that of all pods, and those of the node's services.

Called by `worker/host/cgroups/`, and by `cgroups` before a pod with huge pages. With the systemd driver a limit
is told to systemd first, so that it outlives a `daemon-reload`. Everything may block, for systemd's answer for seconds: call
it in a thread.
"""

import contextlib
import errno
from pathlib import Path
from typing import Final

from activities.machine.cgroup_files import (
    Files,
    LimitFiles,
    NodeLimits,
    differing,
    joined,
    kept_if_raising,
    read_memory,
    write_files,
)
from activities.machine.cgroup_hierarchies import ENABLED, LIMITED, Hierarchies
from activities.machine.cgroup_names import CgroupNames
from activities.machine.node_capacity import huge_pages
from activities.machine.slices import Slices
from proto.kubernetes.resources.huge_pages import page_size_name
from proto.kubernetes.resources.qos import QosClass

_NEEDED: Final = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb")
"""The hierarchies of v1 in which a cgroup has to exist (cm/cgroup_v1_manager_linux.go Validate), and that of systemd."""
_SYSTEMD: Final = "systemd"


class NodeCgroups:
    """These cgroups of one node."""

    def __init__(self, names: CgroupNames, hierarchies: Hierarchies, slices: Slices | None) -> None:
        """Take the names, where cgroups are mounted, and what tells systemd (None: cgroups are no slices)."""
        self._names, self._hierarchies, self._slices = names, hierarchies, slices
        self._told: set[str] = set()

    @property
    def pods(self) -> str:
        """The path of the cgroup of all pods."""
        return self._names.path()

    def tier(self, qos: QosClass) -> str:
        """Return the path of the cgroup of a QoS class's pods."""
        return self._names.tier(qos)

    def existing(self, cgroup: str) -> str:
        """Return the path of a cgroup of the operator's; raises ValueError if there can be none of this name."""
        return self._names.existing(cgroup)

    def limit(self, cgroup: str, limits: NodeLimits) -> bool:
        """Set the limits of a cgroup where they differ; returns whether one did. Raises OSError, also if it is missing."""
        files = LimitFiles(self._hierarchies.v2 is not None, has_huge_pages(self._hierarchies)).of_node(limits)
        folders = [(folder, files.get(one, ())) for one in LIMITED if (folder := self._folder(one, cgroup))]
        wrong = [(folder, differing(folder, wanted)) for folder, wanted in folders]
        changed = any(files for _, files in wrong)
        if self._slices and (changed or cgroup not in self._told):
            told = joined(files, LIMITED)
            self._slices.limit(cgroup, told, dict(told))
            self._told.add(cgroup)
        for folder, wanted in wrong:
            _write(folder, wanted)
        return changed

    def memory_used(self, cgroup: str) -> int:
        """Read how many bytes of memory a cgroup uses; raises OSError."""
        return read_memory(self._memory(cgroup), v2=self._hierarchies.v2 is not None)[1]

    def unlimit_memory(self, cgroup: str) -> bool:
        """Remove a cgroup's memory limit; returns whether it had one. Raises OSError."""
        v2 = self._hierarchies.v2 is not None
        if not read_memory(self._memory(cgroup), v2=v2)[0]:
            return False
        files = LimitFiles(v2, huge_pages=False).of_no_memory_limit()
        if self._slices:
            self._slices.limit(cgroup, files, {})
        write_files(self._memory(cgroup), files)
        return True

    def missing(self, cgroup: str) -> str:
        """Say in the kubelet's words what a cgroup lacks to be limited; empty: nothing."""
        if self._hierarchies.v2:
            return self._missing_controllers(self._hierarchies.v2, cgroup)
        roots = [self._hierarchies.v1[one] for one in _NEEDED if one in self._hierarchies.v1]
        roots += [place for place in self._hierarchies.v1.values() if place.name == _SYSTEMD]
        folders = [place / cgroup.lstrip("/") for place in dict.fromkeys(roots)]
        if gone := [str(one) for one in folders if not one.is_dir()]:
            return f"cgroup {self.shown(cgroup)} has some missing paths: {', '.join(gone)}"
        return ""

    def shown(self, cgroup: str) -> str:
        """Write a cgroup's path as the kubelet does in messages: `["kubepods" "burstable"]`."""
        parts = [part for part in cgroup.split("/") if part]
        if self._names.systemd:
            parts = [part.replace("_", "-") for part in parts[-1].removesuffix(".slice").split("-")]
        return "[" + " ".join(f'"{part}"' for part in parts) + "]"

    def allow_huge_pages(self) -> None:
        """Let the pods together use the huge pages that the node has now, before a pod that asks for some. Raises OSError."""
        files = LimitFiles(self._hierarchies.v2 is not None, huge_pages=True)
        if (folder := self._folder("hugetlb", self.pods)) and has_huge_pages(self._hierarchies):
            with contextlib.suppress(FileNotFoundError):  # the cgroup is not made yet, or has no such limit
                write_files(folder, kept_if_raising(folder, files.of_huge_pages(huge_page_capacity())))

    def _memory(self, cgroup: str) -> Path:
        """Return a cgroup's folder for memory; raises OSError on a node that cannot limit it."""
        if (folder := self._folder("memory", cgroup)) is None:
            raise FileNotFoundError(errno.ENOENT, "this kernel has no memory cgroups", cgroup)
        return folder

    def _folder(self, controller: str, cgroup: str) -> Path | None:
        root = self._hierarchies.v2 or self._hierarchies.v1.get(controller)
        return root / cgroup.lstrip("/") if root else None

    def _missing_controllers(self, root: Path, cgroup: str) -> str:
        folder = root / cgroup.lstrip("/")
        needed = set((root / "cgroup.controllers").read_text().split()) & set(ENABLED)
        try:
            enabled = set((folder / "cgroup.controllers").read_text().split())
        except OSError as error:
            return f"could not read controllers for cgroup {self.shown(cgroup)}: {error.filename}: {error.strerror}"
        if less := sorted(needed - enabled):
            return f"cgroup {self.shown(cgroup)} has some missing controllers: {', '.join(less)}"
        return ""


def has_huge_pages(hierarchies: Hierarchies) -> bool:
    """Report whether the kernel has the hugetlb controller."""
    if hierarchies.v2 is None:
        return "hugetlb" in hierarchies.v1
    return "hugetlb" in (hierarchies.v2 / "cgroup.controllers").read_text().split()


def huge_page_capacity() -> tuple[tuple[str, int], ...]:
    """Return the bytes that are reserved for huge pages now, for each size by the kernel's name."""
    return tuple((page_size_name(size), total) for size, total in huge_pages().items())


def _write(folder: Path, files: Files) -> None:
    """Write them; raises OSError, for a memory limit below what is used with runc's words."""
    try:
        write_files(folder, files)
    except OSError as error:
        wanted = dict(files).get("memory.limit_in_bytes")
        if error.errno != errno.EBUSY or wanted is None:
            raise
        used, peak = ((folder / f"memory.{one}_in_bytes").read_text().strip() for one in ("usage", "max_usage"))
        words = f"unable to set memory limit to {wanted} (current usage: {used}, peak usage: {peak})"
        raise OSError(errno.EBUSY, words) from error
