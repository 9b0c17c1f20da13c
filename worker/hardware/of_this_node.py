"""What chooses the exclusive hardware of this node, by its configuration, and what keeps it in force. Called by the worker process."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from activities.clients.runtime import RuntimeClient
from proto.pod_snapshot import PodSnapshot
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.devices.of_this_node import NodeDevices
from worker.hardware.cpu_sets_in_force import CpuSetsInForce
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.memory_of_nodes import load_memory
from worker.hardware.node_hardware import NodeHardware
from worker.hardware.provider import Provider
from worker.telemetry.kubelet.resource_managers import ResourceManagerCounts
from workflows.decide.cpus.state_file import Containers, none_known

Loops = Callable[[RuntimeClient, Callable[[], Iterable[PodSnapshot]]], Sequence[AbstractAsyncContextManager[None]]]


@dataclass(frozen=True, slots=True)
class HardwareOfThisNode:
    """What chooses hardware, and what it needs."""

    hardware: NodeHardware
    devices: NodeDevices
    loops: Loops


def exclusive_hardware(
    config: NodeConfig, counts: ResourceManagerCounts | None = None, known_containers: Containers = none_known
) -> HardwareOfThisNode:
    """Make what chooses hardware, from what is on disk.

    Raises ConfigurationRefused if the files do not suit the configuration or the machine.
    """
    counts = counts or ResourceManagerCounts()
    cpus = load_cpus(config.cpu_manager, config.root_dir, counts.cpus, known_containers)
    memory = load_memory(config.memory_manager, config.root_dir, counts.memory)
    devices = NodeDevices(config.root_dir, counts.devices)
    providers: list[Provider] = [one for one in (cpus, memory, devices.manager) if one]
    hardware = NodeHardware(providers, config.topology_manager, counts.topology)

    def loops(
        runtime: RuntimeClient, snapshots: Callable[[], Iterable[PodSnapshot]]
    ) -> Sequence[AbstractAsyncContextManager[None]]:
        kept = CpuSetsInForce(hardware, runtime, snapshots, config.cpu_manager.reconcile_every)
        return (in_background("CPU sets", kept.run), *devices.running())

    return HardwareOfThisNode(hardware, devices, loops)
