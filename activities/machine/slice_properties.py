"""The properties of a slice that say what files of its cgroup say; pure.

systemd writes the files of its slices again, at a `daemon-reload` for example, so what only a file says would be lost.
The names and figures are runc's (opencontainers/cgroups systemd/v1.go, v2.go, common.go). Huge pages have no property:
systemd leaves their files alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final

Property = tuple[str, tuple[str, object]]
"""A name, and a D-Bus signature with its value."""
PERIOD_SINCE: Final = 242
"""The first systemd with CPUQuotaPeriodUSec; an older one has 100 ms."""
_INFINITY: Final = 2**64 - 1
SECOND: Final = 1_000_000
_PERCENT: Final = 10_000
"""Microseconds in each second that are one percent of a processor."""
_AMOUNTS: Final = {
    "cpu.weight": "CPUWeight",
    "cpu.shares": "CPUShares",
    "memory.min": "MemoryMin",
    "memory.low": "MemoryLow",
    "memory.high": "MemoryHigh",
    "memory.max": "MemoryMax",
    "memory.swap.max": "MemorySwapMax",
    "memory.limit_in_bytes": "MemoryLimit",
    "pids.max": "TasksMax",
}
_PERIOD_V1: Final = "cpu.cfs_period_us"
_QUOTA_V1: Final = "cpu.cfs_quota_us"
_QUOTA_V2: Final = "cpu.max"


def new_slice(unit: str, parent: str, *, v2: bool) -> list[Property]:
    """Return what a slice is made with: its parent, and that everything in it is counted.

    Without default dependencies it is not stopped before its containers at a shutdown.
    """
    counted = ("Memory", "CPU", "IO" if v2 else "BlockIO", "Tasks")
    return [
        ("Description", ("s", f"cgroup of Kubernetes pods: {unit}")),
        ("Wants", ("as", [parent])),
        *((f"{what}Accounting", ("b", True)) for what in counted),
        ("DefaultDependencies", ("b", False)),
    ]


def properties_of(files: Sequence[tuple[str, str]], beside: Mapping[str, str], *, version: int) -> list[Property]:
    """Return the properties for the files that are to be written.

    `beside` has the files of the same cgroup that may stay as they are: quota and period make one property on v1.
    """
    wanted = dict(files)
    found: list[Property] = [
        (_AMOUNTS[name], ("t", _amount(value))) for name, value in wanted.items() if name in _AMOUNTS
    ]
    if _QUOTA_V2 in wanted:
        quota, _, period = wanted[_QUOTA_V2].partition(" ")
        found += _quota(quota, period, version)
    elif _QUOTA_V1 in wanted:
        found += _quota(wanted[_QUOTA_V1], {**beside, **wanted}[_PERIOD_V1], version)
    return found


def whole_percents(each_second: int) -> int:
    """Round microseconds in each second up to a percent of a processor, as systemd would (common.go addCPUQuota)."""
    return -(-each_second // _PERCENT) * _PERCENT


def _quota(quota: str, period: str, version: int) -> list[Property]:
    limit, length = _amount(quota), int(period)
    if limit != _INFINITY:
        limit = whole_percents(limit * SECOND // length)
    found: list[Property] = [("CPUQuotaPeriodUSec", ("t", length))] if version >= PERIOD_SINCE else []
    return [*found, ("CPUQuotaPerSecUSec", ("t", limit))]


def _amount(text: str) -> int:
    return _INFINITY if text in ("max", "-1") else int(text)
