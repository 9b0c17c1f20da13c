"""Reads usage from cgroup v1, one hierarchy for each controller (opencontainers/cgroups fs/*.go, as in cAdvisor)."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from worker.stats.cgroups.usage import (
    CgroupUsage,
    Transfers,
    folder_time,
    folders,
    limit,
    number,
    pids,
    read_text,
    table,
)

_NANOSECOND: Final = 10**9
_TICK: Final = _NANOSECOND // os.sysconf("SC_CLK_TCK")


class CgroupsV1:
    """The node's cgroups, by controller; values of a controller that is not mounted are 0."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        """Take the mount point of each controller."""
        self._roots = {name: str(root) for name, root in roots.items()}

    def usage(self, cgroup: str) -> CgroupUsage | None:
        """Read everything; None if there is no such cgroup."""
        usage = self.cpu_and_memory(cgroup)
        if usage is None:
            return None
        self._add_cpu(usage, cgroup)
        self._add_memory(usage, cgroup)
        tasks = self._at("pids", cgroup)
        usage.tasks = number(read_text(f"{tasks}/pids.current"))
        usage.tasks_most = number(read_text(f"{tasks}/pids.max"))
        self._add_transfers(usage, cgroup)
        return usage

    def cpu_and_memory(self, cgroup: str) -> CgroupUsage | None:
        """Read cpu, memory and swap only."""
        memory = self._at("memory", cgroup)
        current = read_text(f"{memory}/memory.usage_in_bytes")
        if not current:
            return None
        usage = CgroupUsage(time.time())
        usage.cpu = number(read_text(f"{self._at('cpuacct', cgroup)}/cpuacct.usage"))
        usage.memory = number(current)
        counted = table(read_text(f"{memory}/memory.stat"))
        usage.cache = counted.get(b"total_cache", 0)
        usage.rss = counted.get(b"total_rss", 0)
        usage.mapped = counted.get(b"total_mapped_file", 0)
        usage.swap = counted.get(b"total_swap", 0)
        usage.active_file = counted.get(b"total_active_file", 0)
        usage.inactive_file = counted.get(b"total_inactive_file", 0)
        usage.page_faults = counted.get(b"pgfault", 0)
        usage.major_faults = counted.get(b"pgmajfault", 0)
        usage.memory_limit = limit(read_text(f"{memory}/memory.limit_in_bytes"))
        # includes memory, as in cAdvisor
        usage.swap_limit = limit(read_text(f"{memory}/memory.memsw.limit_in_bytes"))
        return usage

    def created_at(self, cgroup: str) -> float:
        """Return its creation time in seconds since 1970, as its folder has it; 0 if it is gone."""
        return folder_time(self._at("memory", cgroup))

    def children(self, cgroup: str) -> list[str]:
        """Return the names of child cgroups; none if it is gone."""
        return folders(self._at("memory", cgroup))

    def processes(self, cgroup: str) -> list[int]:
        """Return its processes, without those of child cgroups; none if it is gone."""
        return pids(read_text(f"{self._at('cpu', cgroup)}/cgroup.procs"))

    def _at(self, controller: str, cgroup: str) -> str:
        root = self._roots.get(controller)
        return f"{root}{cgroup}" if root and cgroup != "/" else root or "/nowhere"

    def _add_cpu(self, usage: CgroupUsage, cgroup: str) -> None:
        split = table(read_text(f"{self._at('cpuacct', cgroup)}/cpuacct.stat"))
        usage.cpu_user, usage.cpu_system = split.get(b"user", 0) * _TICK, split.get(b"system", 0) * _TICK
        folder = self._at("cpu", cgroup)
        usage.shares = number(read_text(f"{folder}/cpu.shares"))
        usage.period = number(read_text(f"{folder}/cpu.cfs_period_us"))
        usage.quota = max(0, number(read_text(f"{folder}/cpu.cfs_quota_us")))
        if usage.quota:
            counted = table(read_text(f"{folder}/cpu.stat"))
            usage.periods, usage.throttled_periods = counted.get(b"nr_periods", 0), counted.get(b"nr_throttled", 0)
            usage.throttled = counted.get(b"throttled_time", 0)
            usage.bursts, usage.burst = counted.get(b"nr_bursts", 0), counted.get(b"burst_time", 0)

    def _add_memory(self, usage: CgroupUsage, cgroup: str) -> None:
        folder = self._at("memory", cgroup)
        usage.memory_most = number(read_text(f"{folder}/memory.max_usage_in_bytes"))
        usage.memory_failures = number(read_text(f"{folder}/memory.failcnt"))
        usage.kernel_memory = number(read_text(f"{folder}/memory.kmem.usage_in_bytes"))
        usage.reservation = limit(read_text(f"{folder}/memory.soft_limit_in_bytes")) or 0
        usage.oom_kills = table(read_text(f"{folder}/memory.oom_control")).get(b"oom_kill", 0)

    def _add_transfers(self, usage: CgroupUsage, cgroup: str) -> None:
        folder = self._at("blkio", cgroup)
        volumes = _by_device(read_text(f"{folder}/blkio.throttle.io_service_bytes_recursive"))
        if not volumes:
            return
        times = _by_device(read_text(f"{folder}/blkio.throttle.io_serviced_recursive"))
        for device, (read, written) in volumes.items():
            usage.transfers[device] = Transfers(read, written, *times.get(device, (0, 0)))


def _by_device(text: bytes) -> dict[str, tuple[int, int]]:
    """Parse lines of device, operation and number into bytes read and written."""
    found: dict[str, list[int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in {b"Read", b"Write"}:
            found.setdefault(words[0].decode(), [0, 0])[words[1] == b"Write"] = int(words[2])
    return {device: (read, written) for device, (read, written) in found.items()}
