"""What one cgroup used until now, read from its files: the kernel's numbers by the names that cAdvisor gives them.

`cgroups_v1` and `cgroups_v2` read it, everything that measures asks them. The rules (working set, what counts as no limit) are
cAdvisor's: container/libcontainer/handler.go setMemoryStats, container/common/helpers.go GetSpec.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

NO_LIMIT: Final = 2**62
"""Bytes. Where v1 knows no limit it tells the largest number of whole pages (stats/helper.go isMemoryUnlimited)."""
_LARGEST: Final = 64 * 1024


class Transfers(NamedTuple):
    """What went to and from one device, or how often; whole numbers."""

    read_bytes: int = 0
    written_bytes: int = 0
    reads: int = 0
    writes: int = 0


class Pressure(NamedTuple):
    """How long tasks waited for a resource: `some` of them, and all at once (`full`); totals in microseconds, averages in percent."""

    some_total: int = 0
    full_total: int = 0
    some_averages: tuple[float, float, float] = (0.0, 0.0, 0.0)
    full_averages: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class CgroupUsage:
    """Counters since the cgroup was made, gauges of now; bytes, nanoseconds and whole numbers.

    Not frozen: there are hundreds a scrape, and a frozen one takes three times as long to make.
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
    """Microseconds a period; 0: no limit."""
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
    """None: none."""
    swap_limit: int | None = None
    reservation: int = 0
    oom_kills: int = 0
    tasks: int = 0
    tasks_most: int = 0
    """0: no limit."""
    transfers: dict[str, Transfers] = field(default_factory=dict)
    """By device, as major:minor."""
    pressure: dict[str, Pressure] = field(default_factory=dict)
    """Of cpu, memory and io; empty where the kernel does not count it (cgroup v1)."""

    @property
    def working_set(self) -> int:
        """What cannot be given back without harm: all but pages of files that nobody touched lately."""
        return max(0, self.memory - self.inactive_file)


class CgroupReader(Protocol):
    """How a node's cgroups are read."""

    def usage(self, cgroup: str) -> CgroupUsage | None:
        """Read everything; None when there is no such cgroup (any more)."""

    def cpu_and_memory(self, cgroup: str) -> CgroupUsage | None:
        """Read cpu, memory and swap only, for metrics-server."""

    def created_at(self, cgroup: str) -> float:
        """Say when it was made, in seconds since 1970, as far as its folder tells; 0 when it is gone."""

    def children(self, cgroup: str) -> list[str]:
        """Name the cgroups right below; none when it is gone."""

    def processes(self, cgroup: str) -> list[int]:
        """List the processes in it, without those of the cgroups below; none when it is gone."""


def read_text(path: str) -> bytes:
    """Read a small file of the kernel; empty where it is not there, or not now. A third of the time of pathlib."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, _LARGEST)
    except OSError:  # removed while it was open, or a controller that is off
        return b""
    finally:
        os.close(file)


def number(text: bytes) -> int:
    """Read a number; 0 for nothing, and for `max`."""
    text = text.strip()
    return int(text) if text.lstrip(b"-").isdigit() else 0


def table(text: bytes) -> dict[bytes, int]:
    """Read lines of a name and a number."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(b" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def limit(text: bytes) -> int | None:
    """Read a limit in bytes; None for none."""
    text = text.strip()
    if not text.isdigit() or int(text) >= NO_LIMIT:
        return None
    return int(text)


def folder_time(folder: str) -> float:
    """Say when a cgroup's folder was made; 0 when it is gone. It is all that cAdvisor knows, too (common/helpers.go GetSpec)."""
    try:
        return os.stat(folder).st_mtime  # noqa: PTH116 - hundreds a scrape
    except OSError:
        return 0.0


def folders(path: str) -> list[str]:
    """Name the folders in a folder; none when it is gone."""
    try:
        with os.scandir(path) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def pids(text: bytes) -> list[int]:
    """Read cgroup.procs; a process of another PID namespace is shown as 0 and left out."""
    return [int(one) for one in text.split() if one != b"0"]


def parse_pressure(text: bytes) -> Pressure | None:
    """Read a pressure file; None when the kernel does not count it."""
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
