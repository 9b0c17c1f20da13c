"""The kernel's view of a pod's cgroups: the pod's own, and one below it for each container."""

import os
from dataclasses import dataclass
from pathlib import Path

from activities.machine.cgroup_hierarchies import Hierarchies


@dataclass(frozen=True, slots=True)
class Limits:
    """Shares or weight, microseconds of each period (-1: no limit), bytes (0: no limit)."""

    shares: int
    quota: int
    memory: int


def limits(cgroup: str) -> Limits:
    """Read a cgroup's limits by the name that the runtime uses; raises FileNotFoundError."""
    places = Hierarchies.of_this_node()
    if places.v2:
        folder = places.v2 / cgroup.lstrip("/")
        quota, memory = _read(folder, "cpu.max").split()[0], _read(folder, "memory.max")
        shares = int(_read(folder, "cpu.weight"))
        return Limits(shares, -1 if quota == "max" else int(quota), 0 if memory == "max" else int(memory))
    cpu, memory_folder = (places.v1[name] / cgroup.lstrip("/") for name in ("cpu", "memory"))
    memory_limit = int(_read(memory_folder, "memory.limit_in_bytes"))
    return Limits(
        int(_read(cpu, "cpu.shares")),
        int(_read(cpu, "cpu.cfs_quota_us")),
        0 if memory_limit >= 2**62 else memory_limit,
    )


def has_cgroup(name: str) -> bool:
    """Report whether any cgroup has this name; others may vanish meanwhile."""
    return any(name in folders for _, folders, _ in os.walk("/sys/fs/cgroup"))


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text().strip()
