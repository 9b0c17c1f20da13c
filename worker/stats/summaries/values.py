"""The values of /stats/summary in its JSON form (k8s.io/kubelet pkg/apis/stats/v1alpha1; stats/helper.go). Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from proto.kubernetes.api_time import api_time
from worker.stats.cgroups.network import Device
from worker.stats.cgroups.usage import CgroupUsage, Pressure
from worker.stats.disks.filesystems import FileSystem

Json = dict[str, Any]
_MAIN: Final = "eth0"


def when(at: float) -> str:
    """Format a time as the API does: to the second."""
    return api_time(datetime.fromtimestamp(int(at), UTC))


def cpu(usage: CgroupUsage, nanocores: int | None) -> Json:
    """Return cpu usage; `nanocores` None: only one reading is known."""
    content: Json = {"time": when(usage.at)}
    if nanocores is not None:
        content["usageNanoCores"] = nanocores
    return content | {"usageCoreNanoSeconds": usage.cpu} | _pressure(usage.pressure.get("cpu"))


def memory(usage: CgroupUsage, limit: int | None) -> Json:
    """Return memory usage; available is what remains of the limit, if there is one."""
    content: Json = {"time": when(usage.at)}
    if limit is not None:
        content["availableBytes"] = max(0, limit - usage.working_set)
    return (
        content
        | {
            "usageBytes": usage.memory,
            "workingSetBytes": usage.working_set,
            "rssBytes": usage.rss,
            "pageFaults": usage.page_faults,
            "majorPageFaults": usage.major_faults,
        }
        | _pressure(usage.pressure.get("memory"))
    )


def swap(usage: CgroupUsage, limit: int | None) -> Json:
    """Return swap usage."""
    content: Json = {"time": when(usage.at)}
    if limit is not None:
        content["swapAvailableBytes"] = max(0, limit - usage.swap)
    return content | {"swapUsageBytes": usage.swap}


def transfers(usage: CgroupUsage) -> Json:
    """Return I/O pressure, if the kernel counts it."""
    found = usage.pressure.get("io")
    return {"io": {"time": when(usage.at)} | _pressure(found)} if found else {}


def network(devices: Sequence[Device], at: float) -> Json:
    """Return network usage: the main device's values, and each device's."""
    each = [_device(one) for one in devices]
    main = next((one for one in each if one["name"] == _MAIN), {"name": ""})
    return {"time": when(at), **main, "interfaces": each}


def disk(found: FileSystem, used: int, inodes_used: int) -> Json:
    """Return a file system with the usage of one owner."""
    return {
        "time": when(found.at),
        "availableBytes": found.available,
        "capacityBytes": found.capacity,
        "usedBytes": used,
        "inodesFree": found.inodes_free,
        "inodes": found.inodes,
        "inodesUsed": inodes_used,
    }


def _device(one: Device) -> Json:
    return {
        "name": one.name,
        "rxBytes": one.received_bytes,
        "rxErrors": one.received_errors,
        "txBytes": one.sent_bytes,
        "txErrors": one.sent_errors,
    }


def _pressure(found: Pressure | None) -> Json:
    if found is None:
        return {}
    return {
        "psi": {
            "full": _waits(found.full_total, found.full_averages),
            "some": _waits(found.some_total, found.some_averages),
        }
    }


def _waits(total: int, averages: tuple[float, float, float]) -> Json:
    return {"total": total} | dict(zip(("avg10", "avg60", "avg300"), averages, strict=True))
