"""Measures available memory, disk space and process ids, like the kubelet's eviction manager.

Short blocking reads of /proc, the root cgroup and two file systems; runs in a thread. What cannot be read is omitted.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.node_capacity import memory_capacity, task_capacity
from worker.node.pressure.thresholds import Observation
from worker.stats.cgroups.usage import read_text, table

PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Places:
    """Where to measure."""

    node_fs: Path
    """--root-dir."""
    image_fs: Path | None
    """Where the runtime keeps its images; None if not known."""
    hierarchies: Hierarchies


def observe(places: Places) -> dict[str, Observation]:
    """Measure every signal."""
    found: dict[str, Observation] = {}
    with contextlib.suppress(OSError, ValueError, LookupError):
        found["memory.available"] = memory(places.hierarchies, memory_capacity())
    with contextlib.suppress(OSError, ValueError, LookupError):
        found["pid.available"] = process_ids()
    for name, folder in (("nodefs", places.node_fs), ("imagefs", places.image_fs)):
        if folder is not None:
            with contextlib.suppress(OSError):
                found[f"{name}.available"], found[f"{name}.inodesFree"] = disk(folder)
    return found


def memory(hierarchies: Hierarchies, capacity: int) -> Observation:
    """Return capacity less the working set of the root cgroup; raises OSError, KeyError, ValueError."""
    if hierarchies.v2 is not None:
        # the root has no memory.current: the sum of anonymous and file memory replaces it
        stat = table(read_text(f"{hierarchies.v2}/memory.stat"))
        used, idle = stat[b"anon"] + stat[b"file"], stat[b"inactive_file"]
    else:
        folder = hierarchies.v1["memory"]
        used = int((folder / "memory.usage_in_bytes").read_text())
        idle = table(read_text(f"{folder}/memory.stat"))[b"total_inactive_file"]
    return Observation(capacity - max(0, used - idle), capacity)


def disk(folder: Path) -> tuple[Observation, Observation]:
    """Measure bytes and inodes of the file system that holds a folder; raises OSError."""
    found = os.statvfs(folder)
    return (
        Observation(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize),
        Observation(found.f_ffree, found.f_files),
    )


def process_ids(proc: Path = PROC) -> Observation:
    """Measure how many more tasks the kernel would create; raises OSError, ValueError."""
    most, there_are = task_capacity(proc)
    return Observation(most - there_are, most)
