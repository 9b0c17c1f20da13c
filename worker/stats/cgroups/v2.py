"""Reads usage from cgroup v2 (opencontainers/cgroups fs2/*.go, as in cAdvisor).

The root cgroup has no memory files: /proc/meminfo and /proc/vmstat replace them, as in runc.
"""

import time
from pathlib import Path
from typing import Final

from worker.stats.cgroups.usage import (
    CgroupUsage,
    Pressure,
    Transfers,
    folder_time,
    folders,
    limit,
    number,
    parse_pressure,
    pids,
    read_text,
    table,
)

_MICROSECOND: Final = 1000
_KIB: Final = 1024
_RESOURCES: Final = ("cpu", "memory", "io")


class CgroupsV2:
    """The node's cgroups below their mount point."""

    def __init__(self, root: Path, proc: Path = Path("/proc")) -> None:
        """Take the mount point, and where /proc is."""
        self._root, self._proc = str(root), str(proc)

    def usage(self, cgroup: str) -> CgroupUsage | None:
        """Read everything; None if there is no such cgroup."""
        usage = self.cpu_and_memory(cgroup)
        if usage is None:
            return None
        folder = self._at(cgroup)
        self._add_limits(usage, folder)
        usage.memory_most = number(read_text(f"{folder}/memory.peak"))
        events = table(read_text(f"{folder}/memory.events"))
        usage.oom_kills = events.get(b"oom_kill", 0)
        usage.tasks = number(read_text(f"{folder}/pids.current"))
        usage.tasks_most = number(read_text(f"{folder}/pids.max"))
        usage.transfers = _transfers(read_text(f"{folder}/io.stat"))
        usage.pressure = self._pressure(cgroup, folder)
        return usage

    def cpu_and_memory(self, cgroup: str) -> CgroupUsage | None:
        """Read cpu, memory and swap only."""
        folder = self._at(cgroup)
        counted = table(read_text(f"{folder}/cpu.stat"))
        if not counted:
            return None
        usage = CgroupUsage(time.time())
        usage.cpu = counted.get(b"usage_usec", 0) * _MICROSECOND
        usage.cpu_user = counted.get(b"user_usec", 0) * _MICROSECOND
        usage.cpu_system = counted.get(b"system_usec", 0) * _MICROSECOND
        usage.periods, usage.throttled_periods = counted.get(b"nr_periods", 0), counted.get(b"nr_throttled", 0)
        usage.throttled = counted.get(b"throttled_usec", 0) * _MICROSECOND
        usage.bursts, usage.burst = counted.get(b"nr_bursts", 0), counted.get(b"burst_usec", 0) * _MICROSECOND
        memory = table(read_text(f"{folder}/memory.stat"))
        usage.cache, usage.rss, usage.mapped = (memory.get(name, 0) for name in (b"file", b"anon", b"file_mapped"))
        usage.active_file, usage.inactive_file = memory.get(b"active_file", 0), memory.get(b"inactive_file", 0)
        usage.kernel_memory = memory.get(b"kernel", 0)
        usage.page_faults, usage.major_faults = memory.get(b"pgfault", 0), memory.get(b"pgmajfault", 0)
        if cgroup == "/":
            self._add_whole_memory(usage)
        else:
            usage.memory = number(read_text(f"{folder}/memory.current"))
            usage.swap = number(read_text(f"{folder}/memory.swap.current"))
            usage.memory_limit = limit(read_text(f"{folder}/memory.max"))
            usage.swap_limit = limit(read_text(f"{folder}/memory.swap.max"))
        return usage

    def created_at(self, cgroup: str) -> float:
        """Return its creation time in seconds since 1970, as its folder has it; 0 if it is gone."""
        return folder_time(self._at(cgroup))

    def children(self, cgroup: str) -> list[str]:
        """Return the names of child cgroups; none if it is gone."""
        return folders(self._at(cgroup))

    def processes(self, cgroup: str) -> list[int]:
        """Return its processes, without those of child cgroups; none if it is gone."""
        return pids(read_text(f"{self._at(cgroup)}/cgroup.procs"))

    def _at(self, cgroup: str) -> str:
        return self._root if cgroup == "/" else f"{self._root}{cgroup}"

    def _add_whole_memory(self, usage: CgroupUsage) -> None:
        """Read the whole machine's memory.

        Usage is the sum of the root cgroup's parts (fs2 statMemory, rootStatsFromMeminfo).
        """
        kib = {
            words[0].rstrip(b":"): int(words[1])
            for words in (line.split() for line in read_text(f"{self._proc}/meminfo").splitlines())
            if len(words) > 1
        }
        usage.memory = usage.rss + usage.cache
        usage.swap = (kib.get(b"SwapTotal", 0) - kib.get(b"SwapFree", 0)) * _KIB
        if not usage.page_faults:
            events = table(read_text(f"{self._proc}/vmstat"))
            usage.page_faults, usage.major_faults = events.get(b"pgfault", 0), events.get(b"pgmajfault", 0)

    @staticmethod
    def _add_limits(usage: CgroupUsage, folder: str) -> None:
        usage.shares = shares_of_weight(number(read_text(f"{folder}/cpu.weight")))
        quota, _, period = read_text(f"{folder}/cpu.max").partition(b" ")
        usage.quota, usage.period = number(quota), number(period)
        usage.reservation = limit(read_text(f"{folder}/memory.low")) or 0

    def _pressure(self, cgroup: str, folder: str) -> dict[str, Pressure]:
        found = {}
        for resource in _RESOURCES:
            text = read_text(f"{folder}/{resource}.pressure")
            if not text and cgroup == "/":
                text = read_text(f"{self._proc}/pressure/{resource}")
            if (pressure := parse_pressure(text)) is not None:
                found[resource] = pressure
        return found


def shares_of_weight(weight: int) -> int:
    """Convert a cgroup v2 weight to shares (cAdvisor container/common/helpers.go convertCPUWeightToCPULimit); 0: unknown."""
    return 2 + (weight - 1) * 262142 // 9999 if weight else 0


def _transfers(text: bytes) -> dict[str, Transfers]:
    found = {}
    for line in text.splitlines():
        device, *words = line.split()
        fields = dict(word.split(b"=", 1) for word in words if b"=" in word)
        values = [int(fields.get(name, 0)) for name in (b"rbytes", b"wbytes", b"rios", b"wios")]
        if any(values):
            found[device.decode()] = Transfers(*values)
    return found
