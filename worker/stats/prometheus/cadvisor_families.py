"""The families of /metrics/cadvisor and their values (cAdvisor metrics/prometheus.go, as configured by the kubelet).

Omitted is what the kubelet always reports as 0 or -1 because it never counts it (load averages, task states, health), and
ulimits. cAdvisor's `raw` rows cover every mounted file system; these cover those of pods and images.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from worker.stats.disks.filesystems import FileSystem
from worker.stats.prometheus.container_rows import Row
from worker.telemetry.exposition import Family, escaped

_NANOSECONDS: Final = 1e9
_MICROSECONDS: Final = 1e6
COUNTER: Final = "counter"
GAUGE: Final = "gauge"


class FamilySpec(NamedTuple):
    """A family with one sample for each row; `value` None: this row has none."""

    name: str
    help: str
    kind: str
    value: Callable[[Row], float | None]
    timed: bool = True
    """Whether its samples have timestamps."""


def _seconds(name: str) -> Callable[[Row], float]:
    read = attrgetter(name)
    return lambda row: read(row.usage) / _NANOSECONDS


def _plain(name: str) -> Callable[[Row], float]:
    read = attrgetter(name)
    return lambda row: float(read(row.usage))


def _limited(value: Callable[[Row], float]) -> Callable[[Row], float | None]:
    return lambda row: value(row) if row.usage.quota else None


def _pressure(resource: str, name: str) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        found = row.usage.pressure.get(resource)
        return None if found is None else getattr(found, name) / _MICROSECONDS

    return value


SINGLES: Final[Sequence[FamilySpec]] = (
    FamilySpec("container_cpu_user_seconds_total", "Cpu time in user mode.", COUNTER, _seconds("cpu_user")),
    FamilySpec("container_cpu_system_seconds_total", "Cpu time in the kernel.", COUNTER, _seconds("cpu_system")),
    FamilySpec("container_cpu_cfs_periods_total", "Periods of the cpu limit.", COUNTER, _limited(_plain("periods"))),
    FamilySpec(
        "container_cpu_cfs_throttled_periods_total",
        "Periods in which the limit was met.",
        COUNTER,
        _limited(_plain("throttled_periods")),
    ),
    FamilySpec(
        "container_cpu_cfs_throttled_seconds_total",
        "Time in which the limit held it up.",
        COUNTER,
        _limited(_seconds("throttled")),
    ),
    FamilySpec("container_cpu_cfs_burst_periods_total", "Periods with a burst.", COUNTER, _limited(_plain("bursts"))),
    FamilySpec("container_cpu_cfs_burst_seconds_total", "Time in bursts.", COUNTER, _limited(_seconds("burst"))),
    FamilySpec("container_memory_cache", "Bytes of page cache.", GAUGE, _plain("cache")),
    FamilySpec("container_memory_rss", "Bytes of anonymous memory.", GAUGE, _plain("rss")),
    FamilySpec("container_memory_kernel_usage", "Bytes that the kernel holds for it.", GAUGE, _plain("kernel_memory")),
    FamilySpec("container_memory_mapped_file", "Bytes of mapped files.", GAUGE, _plain("mapped")),
    FamilySpec("container_memory_swap", "Bytes in swap.", GAUGE, _plain("swap")),
    FamilySpec("container_memory_failcnt", "How often the memory limit was met.", COUNTER, _plain("memory_failures")),
    FamilySpec("container_memory_usage_bytes", "Memory altogether, page cache too.", GAUGE, _plain("memory")),
    FamilySpec("container_memory_max_usage_bytes", "The most of it so far.", GAUGE, _plain("memory_most")),
    FamilySpec("container_memory_working_set_bytes", "Memory less idle files.", GAUGE, _plain("working_set")),
    FamilySpec("container_memory_total_active_file_bytes", "Files in use lately.", GAUGE, _plain("active_file")),
    FamilySpec(
        "container_memory_total_inactive_file_bytes", "Files not in use lately.", GAUGE, _plain("inactive_file")
    ),
    FamilySpec("container_oom_events_total", "Processes killed for want of memory.", COUNTER, _plain("oom_kills")),
    FamilySpec("container_threads", "Threads.", GAUGE, _plain("tasks")),
    FamilySpec("container_threads_max", "How many there may be; 0: no limit.", GAUGE, _plain("tasks_most")),
    FamilySpec("container_processes", "Processes.", GAUGE, lambda row: float(row.processes.count)),
    FamilySpec("container_file_descriptors", "Open descriptors.", GAUGE, lambda row: float(row.processes.descriptors)),
    FamilySpec("container_sockets", "Open sockets.", GAUGE, lambda row: float(row.processes.sockets)),
    FamilySpec("container_last_seen", "When it was last seen.", GAUGE, lambda row: float(int(row.usage.at))),
    FamilySpec(
        "container_start_time_seconds", "When it was made.", GAUGE, lambda row: float(int(row.started)), timed=False
    ),
    FamilySpec("container_spec_cpu_period", "Microseconds.", GAUGE, _plain("period"), timed=False),
    FamilySpec("container_spec_cpu_quota", "Microseconds a period.", GAUGE, _limited(_plain("quota")), timed=False),
    FamilySpec("container_spec_cpu_shares", "Its weight.", GAUGE, _plain("shares"), timed=False),
    FamilySpec(
        "container_spec_memory_limit_bytes",
        "0: no limit.",
        GAUGE,
        lambda row: float(row.usage.memory_limit or 0),
        timed=False,
    ),
    FamilySpec("container_spec_memory_reservation_limit_bytes", "0: none.", GAUGE, _plain("reservation"), timed=False),
    FamilySpec(
        "container_spec_memory_swap_limit_bytes",
        "0: no limit.",
        GAUGE,
        lambda row: float(row.usage.swap_limit or 0),
        timed=False,
    ),
    *(
        FamilySpec(
            f"container_pressure_{resource}_{word}_seconds_total",
            f"Time in which {who} tasks waited for {resource}.",
            COUNTER,
            _pressure(resource, name),
        )
        for resource in ("cpu", "memory", "io")
        for word, who, name in (("stalled", "all", "full_total"), ("waiting", "some", "some_total"))
    ),
)

_NETWORK: Final = tuple(
    (f"container_network_{way}_{what}_total", f"{text} {what}", f"{field}_{counted}")
    for way, text, field in (("receive", "Received", "received"), ("transmit", "Sent", "sent"))
    for what, counted in (
        ("bytes", "bytes"),
        ("packets", "packets"),
        ("errors", "errors"),
        ("packets_dropped", "dropped"),
    )
)
_TRANSFERS: Final = (
    ("container_fs_reads_bytes_total", "Bytes read from the device.", "read_bytes"),
    ("container_fs_reads_total", "Reads completed.", "reads"),
    ("container_fs_writes_bytes_total", "Bytes written to the device.", "written_bytes"),
    ("container_fs_writes_total", "Writes completed.", "writes"),
)
_DISKS: Final = (
    ("container_fs_limit_bytes", "Size of the file system.", "capacity"),
    ("container_fs_usage_bytes", "Bytes in use.", "used"),
    ("container_fs_inodes_total", "Inodes.", "inodes"),
    ("container_fs_inodes_free", "Free inodes.", "inodes_free"),
)


def families(rows: Sequence[Row], disks: Sequence[FileSystem], devices: Mapping[str, str]) -> Iterator[Family]:
    """Build the families; `disks` are the node's, `devices` maps major:minor to names."""
    times = [int(row.usage.at * 1000) for row in rows]
    for one in SINGLES:
        family = Family(one.name, one.help, one.kind)
        for row, at in zip(rows, times, strict=True):
            if (value := one.value(row)) is not None:
                family.add(value, row.labels, at if one.timed else None)
        yield family
    yield _cpu(rows)
    yield _failures(rows)
    for name, text, field in _NETWORK:
        family = Family(name, f"{text}, by device.", COUNTER)
        for row, at in zip(rows, times, strict=True):
            for device in row.devices:
                family.add(getattr(device, field), f'{row.labels},interface="{escaped(device.name)}"', at)
        yield family
    for name, text, field in _TRANSFERS:
        family = Family(name, text, COUNTER)
        for row, at in zip(rows, times, strict=True):
            for device_id, transfers in row.usage.transfers.items():
                family.add(getattr(transfers, field), f'{row.labels},device="{devices.get(device_id, device_id)}"', at)
        yield family
    yield from _file_systems(rows[:1], disks)


def _cpu(rows: Sequence[Row]) -> Family:
    family = Family("container_cpu_usage_seconds_total", "Cpu time.", COUNTER)
    for row in rows:
        if row.usage.cpu:
            family.add(row.usage.cpu / _NANOSECONDS, f'{row.labels},cpu="total"', int(row.usage.at * 1000))
    return family


def _failures(rows: Sequence[Row]) -> Family:
    family = Family("container_memory_failures_total", "Faults of pages, by kind.", COUNTER)
    for row in rows:
        at = int(row.usage.at * 1000)
        for kind, count in (("pgfault", row.usage.page_faults), ("pgmajfault", row.usage.major_faults)):
            for scope in ("container", "hierarchy"):
                family.add(count, f'{row.labels},failure_type="{kind}",scope="{scope}"', at)
    return family


def _file_systems(node: Sequence[Row], disks: Sequence[FileSystem]) -> Iterator[Family]:
    for name, text, field in _DISKS:
        family = Family(name, text, GAUGE)
        for row in node:
            for disk in disks:
                family.add(getattr(disk, field), f'{row.labels},device="{disk.device}"', int(disk.at * 1000))
        yield family
