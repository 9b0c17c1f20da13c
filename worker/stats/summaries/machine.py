"""What /stats/summary says of the machine itself: memory, swap, root disk, network devices, process limit."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from activities.machine.node_capacity import memory_capacity, swap_capacity, task_capacity
from worker.daemon.config import NodeConfig
from worker.machine.boot_time import boot_time
from worker.stats.cgroups.network import Device, devices_of
from worker.stats.disks.filesystems import FileSystem, file_system_of
from worker.stats.disks.node_disks import RuntimeDisks, UsedDisk


@dataclass(frozen=True, slots=True)
class Machine:
    """The part of /stats/summary that describes the machine."""

    name: str
    boot_time: float
    memory: int
    swap: int
    disk: FileSystem
    images: UsedDisk = field(default_factory=UsedDisk)
    containers: UsedDisk = field(default_factory=UsedDisk)
    devices: Sequence[Device] = ()
    most_processes: int = 0
    processes: int = 0


def read_machine(config: NodeConfig, disks: RuntimeDisks) -> Machine:
    """Read the machine; blocks. Raises OSError."""
    most_processes, processes = task_capacity()
    return Machine(
        name=config.node_name,
        boot_time=boot_time(),
        memory=memory_capacity(),
        swap=swap_capacity(),
        disk=file_system_of(config.root_dir),
        images=disks.images,
        containers=disks.containers,
        devices=devices_of("self"),
        most_processes=most_processes,
        processes=processes,
    )
