"""The files by which a pod's limits are set, on cgroup v1 and v2, and how they are written and compared.

Used by `cgroups`. `LimitFiles` is pure; the functions below it touch the files.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.machine.cgroup_hierarchies import ENABLED
from activities.machine.slice_properties import SECOND, whole_percents
from proto.kubernetes.resources.memory import MEMORY_MIN
from proto.kubernetes.resources.resources import MIN_SHARES, PodResources, cpu_weight

Files = tuple[tuple[str, str], ...]
"""Names of files and what to write into them, in the order of writing."""
_NO_MEMORY_LIMIT: Final = 2**62
"""Bytes. Without a limit, cgroup v1 reports the largest number of whole pages."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
RESERVED: Final = ".rsvd."
"""In the names of the files that limit huge pages which are reserved, though not used; kernels have them from 5.7 on."""


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """What limits a cgroup of the node's: that of all pods, or one of its services. None leaves it as it is."""

    cpu_shares: int | None = None
    memory: int | None = None
    """Bytes; 0 is no limit either, as in the kubelet."""
    pids: int | None = None
    huge_pages: tuple[tuple[str, int], ...] = ()
    """The limit in bytes for each size of page that the node has, by the kernel's name."""
    protected: bool = False
    """Whether the memory is also protected (memory.min): the gate MemoryQoS, on cgroup v2."""


@dataclass(frozen=True, slots=True)
class LimitFiles:
    """The files of one node."""

    v2: bool
    huge_pages: bool
    """Whether the kernel has the hugetlb controller."""
    pids_limit: int = -1
    """KubeletConfiguration's podPidsLimit; not above 0: none."""
    whole_percents: bool = False
    """Whether CPU quotas are rounded up to a percent of a processor, as systemd does."""

    def of_pod(self, resources: PodResources) -> dict[str, Files]:
        """Return the files of a pod's cgroup, by controller."""
        cpu = list(self.of_shares(resources.cpu_shares)["cpu"])
        if resources.cpu_period is not None and resources.cpu_quota is not None:
            quota = self._quota(resources.cpu_quota, resources.cpu_period)
            if self.v2:
                cpu.append(("cpu.max", f"{quota if quota > 0 else 'max'} {resources.cpu_period}"))
            else:
                cpu.append(("cpu.cfs_period_us", str(resources.cpu_period)))
                cpu.append(("cpu.cfs_quota_us", str(quota or -1)))
        memory = list(resources.unified.items()) if self.v2 else []
        if resources.memory_limit:
            memory.append((self.memory_limit, str(resources.memory_limit)))
        files = {"cpu": tuple(cpu), "memory": tuple(memory)}
        if self.huge_pages:
            files["hugetlb"] = self.of_huge_pages(resources.huge_pages)
        if self.pids_limit > 0:
            files["pids"] = (("pids.max", str(self.pids_limit)),)
        return files

    def of_shares(self, shares: int) -> dict[str, Files]:
        """Return the file of a cgroup's weight alone."""
        return {"cpu": (("cpu.weight", str(cpu_weight(shares))) if self.v2 else ("cpu.shares", str(shares)),)}

    def of_node(self, limits: NodeLimits) -> dict[str, Files]:
        """Return the files of a cgroup that holds all pods, or services of the node, by controller."""
        files = self.of_shares(limits.cpu_shares) if limits.cpu_shares else {}
        memory = [(MEMORY_MIN, str(limits.memory))] if self.v2 and limits.memory and limits.protected else []
        if limits.memory:
            memory.append((self.memory_limit, str(limits.memory)))
        files["memory"] = tuple(memory)
        if limits.pids is not None:
            files["pids"] = (("pids.max", str(max(1, limits.pids))),)  # systemd takes no 0 (opencontainers/cgroups)
        if self.huge_pages:
            files["hugetlb"] = self.of_huge_pages(limits.huge_pages)
        return files

    def of_huge_pages(self, limits: Sequence[tuple[str, int]]) -> Files:
        """Return the files that limit huge pages, in bytes for each size by the kernel's name."""
        suffix = "max" if self.v2 else "limit_in_bytes"
        return tuple(
            (f"hugetlb.{size}{kind}{suffix}", str(limit)) for size, limit in limits for kind in (".", RESERVED)
        )

    def of_no_memory_limit(self) -> Files:
        """Return the file by which a memory limit is removed."""
        return ((self.memory_limit, "max" if self.v2 else "-1"),)

    @property
    def memory_limit(self) -> str:
        """Name the file of the memory limit."""
        return "memory.max" if self.v2 else "memory.limit_in_bytes"

    def _quota(self, quota: int, period: int) -> int:
        each_second = quota * SECOND // period
        if not self.whole_percents or quota <= 0 or whole_percents(each_second) == each_second:
            return quota
        return whole_percents(each_second) * period // SECOND


def read_memory(folder: Path, *, v2: bool) -> tuple[int, int]:
    """Read the memory limit (0: none) and usage of a cgroup, in bytes; raises OSError."""
    limit, usage = ("memory.max", "memory.current") if v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    found = amount((folder / limit).read_text())
    return 0 if found >= _NO_MEMORY_LIMIT else int(found), int((folder / usage).read_text())


def write_files(folder: Path, files: Files) -> None:
    """Write them into a cgroup's folder; raises OSError."""
    for name, value in _known(folder, files):
        (folder / name).write_text(value)


def kept_if_raising(folder: Path, files: Files) -> Files:
    """Leave out the files that have no smaller value than this; raises OSError."""
    known = _known(folder, files)
    return tuple((name, value) for name, value in known if amount((folder / name).read_text()) < amount(value))


def differing(folder: Path, files: Files) -> Files:
    """Leave out the files that have their value already, rounded as by the kernel; raises OSError."""
    known = _known(folder, files)
    return tuple((name, value) for name, value in known if amount((folder / name).read_text()) != _kept(name, value))


def _kept(name: str, value: str) -> float:
    """Return the value that the kernel keeps: memory in whole pages."""
    return amount(value) // _PAGE * _PAGE if name.startswith("memory.") else amount(value)


def _known(folder: Path, files: Files) -> Files:
    """Leave out the files that only newer kernels have, where they are missing (opencontainers/cgroups fs2/hugetlb.go)."""
    return tuple((name, value) for name, value in files if RESERVED not in name or (folder / name).exists())


def amount(text: str) -> float:
    """Parse an amount, or the quota in a quota and period; no limit is larger than any."""
    first = text.split(maxsplit=1)[0]
    return math.inf if first in ("max", "-1") else int(first)


def shares_of(folder: Path) -> int:
    """Read a cgroup's shares, on v2 converted from its weight (cgroup_v2_manager_linux.go); 0: it is being removed."""
    try:
        if (weight := folder / "cpu.weight").exists():
            return (int(weight.read_text()) - 1) * 262142 // 9999 + MIN_SHARES
        return int((folder / "cpu.shares").read_text())
    except FileNotFoundError:
        return 0


def make_unified(root: Path, folder: Path) -> None:
    """Create a v2 cgroup and enable the controllers in each parent."""
    folder.mkdir(parents=True, exist_ok=True)
    available = set((root / "cgroup.controllers").read_text().split())
    wanted = " ".join(f"+{name}" for name in ENABLED if name in available)
    for parent in reversed(folder.relative_to(root).parents):
        control = root / parent / "cgroup.subtree_control"
        if not {name.lstrip("+") for name in wanted.split()} <= set(control.read_text().split()):
            control.write_text(wanted)


def joined(files: Mapping[str, Files], controllers: Sequence[str]) -> Files:
    """Return the files of some controllers together."""
    return tuple(one for controller in controllers for one in files.get(controller, ()))
