"""What containers have to themselves, as PodResources tells it.

The worker chooses, and leaves the kubelet's state files; they are read here, because this is another process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from proto.node_devices import (
    HealthyDevices,
    UnansweredDevices,
    healthy_devices_path,
    read_healthy_devices,
    read_unanswered_devices,
    unanswered_devices_path,
)
from proto.podresources.v1 import api_pb2 as api
from worker.machine.fingerprint import Fingerprint, fingerprint_of
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.memory_manager import MemoryManager
from worker.stats.disks.pod_files import PodFile
from workflows.decide.claims.accounts import Accounts, ClaimAccount
from workflows.decide.claims.checkpoint import STATE_FILE as CLAIMS_FILE
from workflows.decide.claims.checkpoint import read_checkpoint as read_claims
from workflows.decide.cpus.state_file import STATE_FILE as CPU_FILE
from workflows.decide.cpus.state_file import read_state as read_cpus
from workflows.decide.cpus.static_policy import Assignments as Cpus
from workflows.decide.devices.allocation import ordered
from workflows.decide.devices.assignments import Assignments as Devices
from workflows.decide.devices.checkpoint import STATE_FILE as DEVICES_FILE
from workflows.decide.devices.checkpoint import read_checkpoint
from workflows.decide.devices.inventory import WITHOUT_TOPOLOGY
from workflows.decide.memory_nodes.amounts import Assignments as Memory
from workflows.decide.memory_nodes.amounts import Block
from workflows.decide.memory_nodes.state_file import STATE_FILE as MEMORY_FILE
from workflows.decide.memory_nodes.state_file import read_state as read_memory

_log = structlog.get_logger(__name__)
_Known = TypeVar("_Known")


class AssignedHardware(Protocol):
    """One kind of hardware: CPUs, memory, devices, claims."""

    def read(self) -> None:
        """Read what is assigned now, before a request is answered. Blocks."""

    def add(self, container: api.ContainerResources, pod: PodFile) -> None:
        """Add what a container has."""

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add what containers may have."""


@dataclass(slots=True)
class AssignedCpus:
    """The exclusive CPUs in `<root-dir>/cpu_manager_state`."""

    settings: CpuManager
    root_dir: Path
    _known: Cpus = Cpus()  # noqa: RUF009 - it is frozen

    def read(self) -> None:
        """Read the file."""
        if self.settings.static is not None:
            self._known = _read(self.root_dir / CPU_FILE, partial(read_cpus, self.settings.policy)) or Cpus()

    def add(self, container: api.ContainerResources, pod: PodFile) -> None:
        """Add a container's own CPUs."""
        container.cpu_ids.extend(sorted(self._known.of(pod.uid, container.name) or ()))

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add all CPUs but the reserved ones; none with the policy none."""
        if policy := self.settings.static:
            answer.cpu_ids.extend(sorted(policy.allocatable))


@dataclass(slots=True)
class AssignedMemory:
    """The memory of NUMA nodes in `<root-dir>/memory_manager_state`."""

    settings: MemoryManager
    root_dir: Path
    _known: Memory = Memory()  # noqa: RUF009 - it is frozen

    def read(self) -> None:
        """Read the file."""
        if self.settings.idle is not None:
            self._known = _read(self.root_dir / MEMORY_FILE, partial(read_memory, self.settings.policy)) or Memory()

    def add(self, container: api.ContainerResources, pod: PodFile) -> None:
        """Add a container's own memory, by size of page."""
        container.memory.extend(map(_memory, self._known.of(pod.uid, container.name) or ()))

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add what each node has without its reservation; none with the policy None."""
        for number, node in sorted((self.settings.idle or {}).items()):
            blocks = (Block((number,), resource, table.allocatable) for resource, table in node.memory.items())
            answer.memory.extend(_memory(one) for one in blocks if one.size)


@dataclass(slots=True)
class AssignedDevices:
    """The devices in `<root-dir>/device-plugins/kubelet_internal_checkpoint`, those that it lacks, and the healthy ones.

    The worker tells of the latter two. There may be many, so a file that is the same as before is not read again.
    """

    root_dir: Path
    _known: Devices = Devices()  # noqa: RUF009 - it is frozen
    _healthy: HealthyDevices = field(default_factory=dict)
    _unanswered: UnansweredDevices = field(default_factory=dict)
    _seen: tuple[Fingerprint | None, ...] = (None, None, None)

    def read(self) -> None:
        """Read the files; what is moved from the first one to the checkpoint meanwhile is in both."""
        root_dir = self.root_dir
        files = unanswered_devices_path(root_dir), root_dir / DEVICES_FILE, healthy_devices_path(root_dir)
        if (unanswered := _fingerprint(files[0])) != self._seen[0]:
            self._unanswered = read_unanswered_devices(root_dir)
        if (checkpoint := _fingerprint(files[1])) != self._seen[1]:
            found = _read(files[1], read_checkpoint) if checkpoint else None
            self._known = found.assignments if found else Devices()
        if (healthy := _fingerprint(files[2])) != self._seen[2]:
            self._healthy = read_healthy_devices(root_dir)
        self._seen = unanswered, checkpoint, healthy

    def add(self, container: api.ContainerResources, pod: PodFile) -> None:
        """Add a container's devices, each once for each NUMA node near it."""
        answered = self._known.pods.get(pod.uid, {}).get(container.name, {})
        unanswered = self._unanswered.get(pod.uid, {}).get(container.name, {})
        found = {**unanswered, **{resource: one.devices for resource, one in answered.items()}}
        for resource, devices in sorted(found.items()):
            container.devices.extend(
                _device(resource, device, node)
                for device in ordered({one for near in devices.values() for one in near})
                for node in sorted(devices)
                if device in devices[node]
            )

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add all healthy devices."""
        for resource, devices in sorted(self._healthy.items()):
            for device in ordered(devices):
                answer.devices.extend(
                    _device(resource, device, node) for node in devices[device] or (WITHOUT_TOPOLOGY,)
                )


@dataclass(slots=True)
class AssignedClaims:
    """The devices of ResourceClaims in `<root-dir>/dra_manager_state`; a file that is the same as before is not read again."""

    root_dir: Path
    _known: Accounts = field(default_factory=dict)
    _seen: Fingerprint | None = None

    def read(self) -> None:
        """Read the file."""
        seen = _fingerprint(self.root_dir / CLAIMS_FILE)
        if seen != self._seen:
            self._known = (_read(self.root_dir / CLAIMS_FILE, read_claims) if seen else None) or {}
        self._seen = seen

    def add(self, container: api.ContainerResources, pod: PodFile) -> None:
        """Add all devices of the claims that a container uses; none if one of them is not known."""
        claims = [self._known.get((pod.namespace, name)) for name in pod.claims.get(container.name, ())]
        if None not in claims:
            container.dynamic_resources.extend(_dynamic_resource(one) for one in claims if one)

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add nothing: the API has ResourceSlices for it."""


def _dynamic_resource(claim: ClaimAccount) -> api.DynamicResource:
    resources = [
        api.ClaimResource(
            cdi_devices=[api.CDIDevice(name=name) for name in device.cdi_device_ids],
            driver_name=driver,
            pool_name=device.pool,
            device_name=device.device,
            share_id=device.share_id,
        )
        for driver, devices in sorted(claim.drivers.items())
        for device in devices
    ]
    namespace, name = claim.key
    return api.DynamicResource(claim_name=name, claim_namespace=namespace, claim_resources=resources)


def _device(resource: str, device: str, node: int) -> api.ContainerDevices:
    topology = None if node == WITHOUT_TOPOLOGY else api.TopologyInfo(nodes=[api.NUMANode(ID=node)])
    return api.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)


def _fingerprint(file: Path) -> Fingerprint | None:
    try:
        return fingerprint_of(file.stat())
    except OSError:
        return None


def _memory(block: Block) -> api.ContainerMemory:
    nodes = [api.NUMANode(ID=number) for number in block.nodes]
    return api.ContainerMemory(memory_type=block.resource, size=block.size, topology=api.TopologyInfo(nodes=nodes))


def _read(file: Path, read: Callable[[str], _Known]) -> _Known | None:
    """Read a state file; one that is absent or broken says nothing, and the worker refuses a broken one at its start."""
    try:
        return read(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("what containers have to themselves can't be listed", file=file.name, err=str(error))
        return None


Assigned = Sequence[AssignedHardware]
