"""What chooses the exclusive hardware of this node, by its configuration, and what keeps it in force. Called by the worker process."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from activities.clients.runtime import RuntimeClient
from proto.cri.runtime_container import RuntimeContainer
from proto.pod_snapshot import PodSnapshot
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.devices.of_this_node import NodeDevices
from worker.hardware.cpu_sets_in_force import CpuSetsInForce
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.memory_of_nodes import load_memory
from worker.hardware.node_hardware import NodeHardware
from worker.hardware.provider import Provider
from worker.hardware.state_files import Left
from worker.hardware.unread_containers import UnreadContainers
from worker.telemetry.kubelet.resource_managers import ResourceManagerCounts
from workflows.decide.cpus.state_file import Containers, none_known

Loops = Callable[[RuntimeClient, Callable[[], Iterable[PodSnapshot]]], Sequence[AbstractAsyncContextManager[None]]]


@dataclass(frozen=True, slots=True)
class HardwareOfThisNode:
    """What chooses hardware, and what it needs."""

    hardware: NodeHardware
    devices: NodeDevices
    loops: Loops


def exclusive_hardware(  # noqa: PLR0913 - most have defaults
    config: NodeConfig,
    counts: ResourceManagerCounts | None = None,
    known_containers: Containers = none_known,
    left: Left = tuple,
    *,
    devices_left: Left = tuple,
    unread: UnreadContainers | None = None,
) -> HardwareOfThisNode:
    """Make what chooses hardware, from what is on disk, or from what the runtime says where that is lost (`left`, `devices_left`).

    What `left` lacks is waited for (`unread`).
    Raises ConfigurationRefused if the files do not suit the configuration or the machine, and what these two functions raise.
    """
    counts, found, unread = counts or ResourceManagerCounts(), set[str](), unread or UnreadContainers()

    def found_left() -> Sequence[RuntimeContainer]:
        containers = left()
        found.update(one.uid for one in containers)
        return containers

    cpus = load_cpus(config.cpu_manager, config.root_dir, counts.cpus, known_containers, left=found_left, unread=unread)
    memory = load_memory(config.memory_manager, config.root_dir, counts.memory, left=found_left, unread=unread)
    devices = NodeDevices(config.root_dir, counts.devices, devices_left)
    providers: list[Provider] = [one for one in (cpus, memory, devices.manager) if one]
    is_lost = any(one and one.recovering for one in (cpus, memory))
    hardware = NodeHardware(providers, config.topology_manager, counts.topology, unread=unread, is_lost=is_lost)
    hardware.found(found | devices.found)

    def loops(
        runtime: RuntimeClient, snapshots: Callable[[], Iterable[PodSnapshot]]
    ) -> Sequence[AbstractAsyncContextManager[None]]:
        kept = CpuSetsInForce(hardware, runtime, snapshots, config.cpu_manager.reconcile_every)
        reading = in_background("unread containers", partial(unread.run, hardware.recovered))
        return (reading, in_background("CPU sets", kept.run), *devices.running())

    return HardwareOfThisNode(hardware, devices, loops)
