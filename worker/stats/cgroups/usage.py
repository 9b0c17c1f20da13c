"""The usage of a cgroup, under cAdvisor's names, and how its files are parsed.

`v1` and `v2` read it. The rules (working set, which values mean no limit) are cAdvisor's: container/libcontainer/handler.go
setMemoryStats, container/common/helpers.go GetSpec.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

NO_LIMIT: Final = 2**62
"""Bytes. Without a limit, v1 reports the largest number of whole pages (stats/helper.go isMemoryUnlimited)."""
_LARGEST: Final = 64 * 1024


class Transfers(NamedTuple):
    """Bytes and operations of one block device."""

    read_bytes: int = 0
    written_bytes: int = 0
    reads: int = 0
    writes: int = 0


class Pressure(NamedTuple):
    """How long tasks waited for a resource: `some` of them, and all at once (`full`).

    Totals in microseconds, averages in percent.
    """

    some_total: int = 0
    full_total: int = 0
    some_averages: tuple[float, float, float] = (0.0, 0.0, 0.0)
    full_averages: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class CgroupUsage:
    """Counters since the cgroup was created, and current gauges; bytes, nanoseconds and counts.

    Not frozen: a scrape creates hundreds, and a frozen one takes three times as long to create.
    """

    at: float
    """Seconds since 1970."""
    cpu: int = 0
    cpu_user: int = 0
    cpu_system: int = 0
    periods: int = 0
    throttled_periods: int = 0
    throttled: int = 0
    bursts: int = 0
    burst: int = 0
    shares: int = 0
    quota: int = 0
    """Microseconds for each period; 0: no limit."""
    period: int = 0
    memory: int = 0
    memory_most: int = 0
    memory_failures: int = 0
    kernel_memory: int = 0
    cache: int = 0
    rss: int = 0
    mapped: int = 0
    swap: int = 0
    active_file: int = 0
    inactive_file: int = 0
    page_faults: int = 0
    major_faults: int = 0
    memory_limit: int | None = None
    """None: no limit."""
    swap_limit: int | None = None
    reservation: int = 0
    oom_kills: int = 0
    tasks: int = 0
    tasks_most: int = 0
    """0: no limit."""
    transfers: dict[str, Transfers] = field(default_factory=dict)
    """By device, as major:minor."""
    pressure: dict[str, Pressure] = field(default_factory=dict)
    """Of cpu, memory and io; empty if the kernel does not count it (cgroup v1)."""

    @property
    def working_set(self) -> int:
        """Memory in use without inactive page cache."""
        return max(0, self.memory - self.inactive_file)


class CgroupReader(Protocol):
    """Reads a node's cgroups."""

    def usage(self, cgroup: str) -> CgroupUsage | None:
        """Read everything; None if there is no such cgroup."""

    def cpu_and_memory(self, cgroup: str) -> CgroupUsage | None:
        """Read cpu, memory and swap only, for metrics-server."""

    def created_at(self, cgroup: str) -> float:
        """Return its creation time in seconds since 1970, as its folder has it; 0 if it is gone."""

    def children(self, cgroup: str) -> list[str]:
        """Return the names of child cgroups; none if it is gone."""

    def processes(self, cgroup: str) -> list[int]:
        """Return its processes, without those of child cgroups; none if it is gone."""


def read_text(path: str) -> bytes:
    """Read a small file of the kernel, or b"" if it cannot be read. Takes a third of the time of pathlib."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, _LARGEST)
    except OSError:  # removed while it was open, or the controller is disabled
        return b""
    finally:
        os.close(file)


def number(text: bytes) -> int:
    """Parse a number; 0 for an empty text and for `max`."""
    text = text.strip()
    return int(text) if text.lstrip(b"-").isdigit() else 0


def table(text: bytes) -> dict[bytes, int]:
    """Parse lines of a name and a number."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(b" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def limit(text: bytes) -> int | None:
    """Parse a limit in bytes; None for no limit."""
    text = text.strip()
    if not text.isdigit() or int(text) >= NO_LIMIT:
        return None
    return int(text)


def folder_time(folder: str) -> float:
    """Return the mtime of a cgroup's folder, which cAdvisor uses as well (common/helpers.go GetSpec); 0 if it is gone."""
    try:
        return os.stat(folder).st_mtime  # noqa: PTH116 - hundreds for each scrape
    except OSError:
        return 0.0


def folders(path: str) -> list[str]:
    """Return the names of the folders in a folder; none if it is gone."""
    try:
        with os.scandir(path) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def pids(text: bytes) -> list[int]:
    """Parse cgroup.procs; a process of another PID namespace is listed as 0 and skipped."""
    return [int(one) for one in text.split() if one != b"0"]


def parse_pressure(text: bytes) -> Pressure | None:
    """Parse a pressure file; None if the kernel does not count it."""
    kinds: dict[bytes, tuple[int, tuple[float, float, float]]] = {}
    for kind, words in _pressure_lines(text):
        averages = (float(words[b"avg10"]), float(words[b"avg60"]), float(words[b"avg300"]))
        kinds[kind] = (int(words[b"total"]), averages)
    if b"some" not in kinds:
        return None
    some, full = kinds[b"some"], kinds.get(b"full", (0, (0.0, 0.0, 0.0)))
    return Pressure(some[0], full[0], some[1], full[1])


def _pressure_lines(text: bytes) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    for line in text.splitlines():
        kind, *words = line.split()
        yield kind, dict(word.split(b"=", 1) for word in words)
