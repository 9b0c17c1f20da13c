"""Answers the metrics and summary endpoints: calls the runtime and keeps the state between requests.

Created once by the node process (`NodeDependencies.stats`), and by the worker for evictions; used from its event loop; files are
read in threads.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.execution.single_flight import SingleFlight
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupNames
from activities.machine.process_cgroups import ProcessCgroups
from proto.temporal.eviction.readings import PodUse
from worker.daemon.config import NodeConfig
from worker.daemon.node_lock import own_processes
from worker.machine.boot_time import boot_time
from worker.machine.cgroup_driver import recorded_names
from worker.stats.cgroups.cpu_rates import CpuRates
from worker.stats.cgroups.owners import Owner, Owners
from worker.stats.cgroups.pod_cgroups import PodCgroup, pod_cgroups
from worker.stats.cgroups.pod_readings import NodeReading, read_node
from worker.stats.cgroups.system_containers import SystemContainer, SystemReading, outermost, read_system
from worker.stats.cgroups.usage import CgroupReader
from worker.stats.cgroups.v1 import CgroupsV1
from worker.stats.cgroups.v2 import CgroupsV2
from worker.stats.disks.filesystems import FileSystem, device_name
from worker.stats.disks.node_disks import NodeDisks, RuntimeDisks
from worker.stats.disks.pod_files import PodFiles
from worker.stats.disks.volumes import Volumes
from worker.stats.pressure.pod_uses import pod_uses
from worker.stats.prometheus.cadvisor_families import families
from worker.stats.prometheus.container_rows import read_rows
from worker.stats.prometheus.log_families import log_family
from worker.stats.prometheus.machine_families import machine_families
from worker.stats.prometheus.resource_families import OwnedUsage, resource_families
from worker.stats.prometheus.volume_families import claimed_families, total_family
from worker.stats.summaries.machine import read_machine
from worker.stats.summaries.summary import brief_summary, summary
from worker.telemetry.exposition import Family, render, single_sample

_FIRST_PAUSE: Final = 1.0
"""Seconds between the two readings for the first request."""

_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Found:
    """The pods' cgroups, and their owners."""

    cgroups: Sequence[PodCgroup]
    owners: Mapping[str, Owner] = field(default_factory=dict)
    disks: Sequence[FileSystem] = ()
    failed: bool = False
    """The runtime did not answer: only series without names are available."""


class NodeStats:
    """Resource usage of this node."""

    def __init__(
        self,
        config: NodeConfig,
        runtime: RuntimeClient,
        hierarchies: Hierarchies | None = None,
        volumes: Volumes | None = None,
    ) -> None:
        """Take the configuration and the client of the runtime; `hierarchies` None: this machine's.

        `volumes` None: without those of CSI drivers.
        """
        self._config = config
        found = hierarchies or Hierarchies.of_this_node()
        self._reader = reader_of(found)
        self._owners = Owners(runtime)
        self._rates = CpuRates()
        self.pods = PodFiles(config.root_dir)
        """The pods' objects."""
        self._disks = NodeDisks(config, runtime, self.pods, volumes)
        self._places = ProcessCgroups(found)
        self._started_at = time.time()
        self._reading = asyncio.Lock()
        self.shared: SingleFlight[bytes] = SingleFlight()
        """Responses in progress: concurrent requests for one share it."""

    async def cadvisor(self) -> bytes:
        """Return /metrics/cadvisor; without the runtime only series without names."""
        return await self.shared.run("cadvisor", self._cadvisor, "/metrics/cadvisor")

    async def resource(self) -> bytes:
        """Return /metrics/resource; without the runtime only the node's series."""
        return await self.shared.run("resource", self._resource, "/metrics/resource")

    async def summary(self, *, only_cpu_and_memory: bool = False) -> bytes:
        """Return /stats/summary as JSON; raises CriError if the runtime does not answer, OSError."""
        key = ("summary", only_cpu_and_memory)
        return await self.shared.run(key, partial(self._summary, whole=not only_cpu_and_memory), "/stats/summary")

    async def uses(self) -> dict[str, PodUse]:
        """Return what each pod uses, by uid; raises CriError, OSError."""
        read = await self._read(whole=True)
        return pod_uses(read, await self._disks.of(read))

    async def volume_families(self) -> list[Family]:
        """Return kubelet_volume_stats_* and volume_manager_total_volumes."""
        measured, counts = await self._disks.volumes()
        return [*claimed_families(measured), total_family(counts)]

    async def log_family(self) -> Family:
        """Return kubelet_container_log_filesystem_used_bytes."""
        return await asyncio.to_thread(log_family, self._config.pod_logs_dir, self.pods.known())

    async def _cadvisor(self) -> bytes:
        return await asyncio.to_thread(self._cadvisor_text, await self._found(with_disks=True))

    async def _resource(self) -> bytes:
        return await asyncio.to_thread(self._resource_text, await self._found())

    async def _summary(self, *, whole: bool) -> bytes:
        async with self._reading:  # one at a time: each continues from the previous reading
            if self._rates.need_another(time.time()):
                self._rates.take(dict((await self._read_all(whole=False)).cpu_readings()))
                await asyncio.sleep(_FIRST_PAUSE)
            read = await self._read_all(whole=whole)
            rates = self._rates.take(dict(read.cpu_readings()))
        disks = await self._disks.of_runtime() if whole else RuntimeDisks()
        machine = await asyncio.to_thread(read_machine, self._config, disks)
        if not whole:
            content = brief_summary(machine, read, rates)
        else:
            content = summary(machine, read, rates, await self._disks.of(read))
        return json.dumps(content, separators=(",", ":")).encode()

    async def _found(self, *, with_disks: bool = False) -> _Found:
        """Find the pods' cgroups and, as far as the runtime answers, their owners."""
        found = _Found(await asyncio.to_thread(self._cgroups))
        try:
            found.owners = await self._owners_of(found.cgroups)
            if with_disks:
                found.disks = await self._disks.file_systems()
        except CriError as error:
            found.failed = True
            _log.warning("the runtime did not answer, so cgroups have no owners", err=str(error))
        return found

    def _names(self) -> CgroupNames:
        """Return the names of cgroups by the driver that the worker has chosen, which may start after this process."""
        return recorded_names(self._config.state_dir, self._config.cgroup_root)

    def _cgroups(self) -> list[PodCgroup]:
        return list(pod_cgroups(self._reader, self._names()))

    async def _owners_of(self, cgroups: Sequence[PodCgroup]) -> Mapping[str, Owner]:
        return await self._owners.of(one.container_id for one in cgroups if one.container_id)

    async def _read(self, *, whole: bool) -> NodeReading:
        cgroups = await asyncio.to_thread(self._cgroups)
        owners = await self._owners_of(cgroups)
        return await asyncio.to_thread(read_node, self._reader, cgroups, owners, whole=whole)

    async def _read_all(self, *, whole: bool) -> NodeReading:
        read = await self._read(whole=whole)
        read.system = await asyncio.to_thread(self._system, whole=whole)
        return read

    def _system(self, *, whole: bool) -> list[SystemReading]:
        return list(read_system(self._reader, self._system_containers(), whole=whole))

    def _system_containers(self) -> Iterator[SystemContainer]:
        """List the system containers in the kubelet's order; one without a cgroup of its own does not exist."""
        own = self._config.agent.cgroup
        if kubelet := [own] if own else outermost(self._own_cgroups()):
            yield SystemContainer("kubelet", kubelet, self._started_at)
        if runtime := self._config.runtime_cgroup:
            yield SystemContainer("runtime", [runtime])
        if misc := self._config.agent.system_cgroup:
            yield SystemContainer("misc", [misc])
        yield SystemContainer("pods", [self._names().path()])

    def _own_cgroups(self) -> Iterator[str]:
        for pid in own_processes(self._config.root_dir):
            with contextlib.suppress(OSError):  # it has ended
                if cgroup := self._places.of(pid):
                    yield cgroup

    def _cadvisor_text(self, found: _Found) -> bytes:
        rows = read_rows(self._reader, found.cgroups, found.owners, boot_time())
        names = {one: device_name(one) for one in {device for row in rows for device in row.usage.transfers}}
        text = "1 if not everything could be read."
        errors = (
            single_sample("container_scrape_error", text, "gauge", found.failed),
            single_sample("machine_scrape_error", text, "gauge", 0),
        )
        return render(chain(families(rows, found.disks, names), machine_families(), errors))

    def _resource_text(self, found: _Found) -> bytes:
        read = read_node(self._reader, found.cgroups, found.owners, whole=False)
        used = [OwnedUsage(pod.sandbox, pod.usage) for pod in read.pods]
        used += [OwnedUsage(one.owner, one.usage) for pod in read.pods for one in pod.containers]
        return render(resource_families(read.node, used, failed=found.failed))


def reader_of(hierarchies: Hierarchies) -> CgroupReader:
    """Return the reader for this node's cgroup version."""
    return CgroupsV2(hierarchies.v2) if hierarchies.v2 else CgroupsV1(hierarchies.v1)
