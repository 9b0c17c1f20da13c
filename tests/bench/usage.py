"""What processes cost, read from /proc: CPU time with their children's, and memory.

Shims and what runs in pods are left out: they are the same under every agent, and an agent does not choose them.
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
    """The fields of /proc/<pid>/stat (proc_pid_stat(5)) that are needed."""

    command: str
    parent: int
    cpu_seconds: float
    """Its own, and that of children it has waited for."""


def cpu_seconds(processes: Sequence[Process]) -> Mapping[str, float]:
    """Give the CPU time so far, by name, live children included."""
    stats = dict(_all_stats())
    return {one.name: sum(stats[pid].cpu_seconds for pid in _family(one.pid, stats)) for one in processes}


def busy_seconds() -> float:
    """Give the time that all processors together have been busy so far."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(map(int, (user, nice, system, *interrupts[:2]))) / TICKS


def resident_mib(processes: Sequence[Process]) -> Mapping[str, float]:
    """Give the resident memory (VmRSS), by name, live children included."""
    stats = dict(_all_stats())
    return {one.name: sum(_rss_kib(pid) for pid in _family(one.pid, stats)) / 1024 for one in processes}


def _family(pid: int, stats: Mapping[int, Stat]) -> list[int]:
    """List a process and its descendants, without shims and what is below them."""
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
            except OSError:  # it has ended meanwhile
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
