"""Reads everything that /metrics/cadvisor reports of one cgroup: usage, processes, network.

Called in a thread: on a full node these are six thousand small files.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from activities.machine.node_capacity import memory_capacity
from worker.stats.cgroups.network import Device, devices_of
from worker.stats.cgroups.owners import Owner
from worker.stats.cgroups.pod_cgroups import PodCgroup
from worker.stats.cgroups.usage import CgroupReader, CgroupUsage, Transfers, read_text
from worker.telemetry.exposition import labels

MOST_DESCRIPTORS: Final = 100_000
"""Limit for one cgroup; counting so many takes a third of a second."""
_SOCKET: Final = "socket:"
_SECTOR: Final = 512
"""Bytes of the kernel's unit, whatever the disk's sectors are (Documentation/admin-guide/iostats.rst)."""


@dataclass(slots=True)
class Processes:
    """The processes of a cgroup, without its children."""

    count: int = 0
    descriptors: int = 0
    sockets: int = 0


@dataclass(slots=True)
class Row:
    """One cgroup, with the kubelet's labels (server.go containerPrometheusLabelsFunc)."""

    labels: str
    """The formatted labels."""
    usage: CgroupUsage
    started: float
    """Seconds since 1970."""
    processes: Processes
    devices: list[Device] = field(default_factory=list)
    """Of a sandbox, and of the node."""


def read_rows(
    reader: CgroupReader, cgroups: Iterable[PodCgroup], owners: Mapping[str, Owner], boot_time: float
) -> list[Row]:
    """Read the root cgroup and then those of pods; cgroups unknown to the runtime are skipped."""
    rows = []
    pods = {one.pod_uid: one for one in owners.values() if one.is_sandbox}
    if (usage := reader.usage("/")) is not None:
        usage.memory_limit = usage.memory_limit or memory_capacity()
        usage.transfers = usage.transfers or disk_transfers(read_text("/proc/diskstats"))
        node = _labels("/", None)
        rows.append(Row(node, usage, boot_time, processes_of(reader.processes("/")), devices_of("self")))
    for cgroup in cgroups:
        owner = owners.get(cgroup.container_id)
        if cgroup.container_id and owner is None:
            continue
        if (usage := reader.usage(cgroup.path)) is None:
            continue
        pids = reader.processes(cgroup.path)
        pod = owner or pods.get(cgroup.pod_uid)
        started = pod.created if pod else reader.created_at(cgroup.path)
        formatted = _labels(cgroup.path, pod, whole_pod=not cgroup.container_id)
        row = Row(formatted, usage, started, processes_of(pids))
        if owner and owner.is_sandbox and pids:
            row.devices = devices_of(pids[0])
        rows.append(row)
    return rows


def processes_of(pids: list[int]) -> Processes:
    """Count the descriptors of processes; one that ends meanwhile counts as far as it was read.

    At most `MOST_DESCRIPTORS` together: a thousand processes that share a table of a million descriptors cost a pod 8 MB, and
    counting them half an hour.
    """
    found = Processes(len(pids))
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if found.descriptors >= MOST_DESCRIPTORS:
                    return found
                found.descriptors += 1
                with contextlib.suppress(OSError):
                    found.sockets += os.readlink(entry.path).startswith(_SOCKET)  # noqa: PTH115 - thousands for each scrape
    return found


def disk_transfers(text: bytes) -> dict[str, Transfers]:
    """Parse the counters of the machine's disks, by major:minor; unused disks are omitted."""
    found = {}
    for line in text.splitlines():
        major, minor, _, reads, _, read, _, writes, _, written, *_ = line.split()
        one = Transfers(int(read) * _SECTOR, int(written) * _SECTOR, int(reads), int(writes))
        if one.reads or one.writes:
            found[f"{major.decode()}:{minor.decode()}"] = one
    return found


def _labels(path: str, pod: Owner | None, *, whole_pod: bool = False) -> str:
    """Format the six labels of a row: container, image and name are empty for a whole pod."""
    named = pod if pod and not whole_pod else None
    return labels(
        {
            "container": named.container if named else "",
            "id": path,
            "image": named.image if named else "",
            "name": named.id if named else "",
            "namespace": pod.namespace if pod else "",
            "pod": pod.pod if pod else "",
        }
    )
