"""The cost of processes, read from /proc: CPU time including children, and memory.

Shims and the pods' processes are left out: they are the same for every agent, and no agent's choice.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.peers.peer import Process

TICKS: Final = os.sysconf("SC_CLK_TCK")
SHIM: Final = "containerd-shim"


@dataclass(frozen=True, slots=True)
class Stat:
    """The needed fields of /proc/<pid>/stat (proc_pid_stat(5))."""

    command: str
    parent: int
    cpu_seconds: float
    """The process's own, and of children it has waited for."""


def cpu_seconds(processes: Sequence[Process]) -> Mapping[str, float]:
    """Return the CPU time so far, by name, including live children."""
    stats = dict(_all_stats())
    return {one.name: sum(stats[pid].cpu_seconds for pid in _family(one.pid, stats)) for one in processes}


def busy_seconds() -> float:
    """Return the busy time of all CPUs together so far."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(map(int, (user, nice, system, *interrupts[:2]))) / TICKS


def resident_mib(processes: Sequence[Process]) -> Mapping[str, float]:
    """Return the resident memory (VmRSS), by name, including live children."""
    stats = dict(_all_stats())
    return {one.name: sum(_rss_kib(pid) for pid in _family(one.pid, stats)) / 1024 for one in processes}


def _family(pid: int, stats: Mapping[int, Stat]) -> list[int]:
    """Return a process and its descendants, without shims and their descendants."""
    found = [pid] if pid in stats else []
    for child, stat in stats.items():
        if stat.parent == pid and not stat.command.startswith(SHIM):
            found += _family(child, stats)
    return found


def _all_stats() -> Iterator[tuple[int, Stat]]:
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                before, _, after = (directory / "stat").read_text().rpartition(")")
            except OSError:  # it has exited meanwhile
                continue
            fields = after.split()
            ticks = sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
            yield int(directory.name), Stat(before.partition("(")[2], int(fields[1]), ticks / TICKS)


def _rss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        return 0
    return 0
