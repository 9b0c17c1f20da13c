"""Reads all pods for /stats/summary and /metrics/resource: the cgroups of pods and containers, and network devices."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from worker.stats.cgroups.cpu_rates import Reading
from worker.stats.cgroups.network import Device, devices_of
from worker.stats.cgroups.owners import Owner
from worker.stats.cgroups.pod_cgroups import PodCgroup
from worker.stats.cgroups.system_containers import SystemReading
from worker.stats.cgroups.usage import CgroupReader, CgroupUsage


@dataclass(slots=True)
class ContainerReading:
    """One container at one time."""

    owner: Owner
    path: str
    usage: CgroupUsage
    processes: int = 0


@dataclass(slots=True)
class PodReading:
    """One pod at one time."""

    sandbox: Owner
    path: str
    usage: CgroupUsage
    containers: list[ContainerReading] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)


@dataclass(slots=True)
class NodeReading:
    """The whole machine, each pod, and the node's own cgroups if they were asked for."""

    node: CgroupUsage | None
    pods: list[PodReading]
    system: list[SystemReading] = field(default_factory=list)

    def cpu_readings(self) -> Iterator[tuple[str, Reading]]:
        """Yield all CPU times, by cgroup; those of system containers by their names, which begin with no slash."""
        if self.node is not None:
            yield "/", Reading(self.node.at, self.node.cpu)
        for system in self.system:
            yield system.name, Reading(system.usage.at, system.usage.cpu)
        for pod in self.pods:
            yield pod.path, Reading(pod.usage.at, pod.usage.cpu)
            for one in pod.containers:
                yield one.path, Reading(one.usage.at, one.usage.cpu)


def read_node(
    reader: CgroupReader, cgroups: Iterable[PodCgroup], owners: Mapping[str, Owner], *, whole: bool
) -> NodeReading:
    """Read machine and pods; without `whole` cpu, memory and swap only. Blocks: call it in a thread."""
    read = reader.usage if whole else reader.cpu_and_memory
    pods: dict[str, PodReading] = {}
    for cgroup in cgroups:
        if not cgroup.container_id:
            continue
        owner = owners.get(cgroup.container_id)
        if owner is None:
            continue
        pod = pods.get(cgroup.pod_uid)
        if pod is None:
            path = cgroup.path.rpartition("/")[0]
            usage, sandbox = read(path), owners.get(owner.sandbox_id)
            if usage is None or sandbox is None:
                continue
            pod = pods[cgroup.pod_uid] = PodReading(sandbox, path, usage)
        if owner.is_sandbox:
            pod.sandbox = owner
            if whole and (pids := reader.processes(cgroup.path)):
                pod.devices = devices_of(pids[0])
        elif (usage := read(cgroup.path)) is not None:
            processes = len(reader.processes(cgroup.path)) if whole else 0
            pod.containers.append(ContainerReading(owner, cgroup.path, usage, processes))
    for pod in pods.values():
        pod.containers.sort(key=lambda one: one.owner.created)
    return NodeReading(read("/"), list(pods.values()))
