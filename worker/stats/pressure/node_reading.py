"""Measures what the eviction signals are made of: memory, the pods' cgroup, file systems, process ids.

The same figures as in /stats/summary. Short blocking reads of cgroups, /proc and two file systems: call it in a thread. What cannot
be read is omitted, so that its thresholds are not met.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.machine.node_capacity import memory_capacity, task_capacity
from proto.temporal.eviction.readings import FileSystemReading, MemoryReading, NodeReading, TaskReading
from proto.temporal.eviction.thresholds import Disks
from worker.stats.cgroups.usage import CgroupReader
from worker.stats.disks.filesystems import FileSystem, file_system_of

PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Places:
    """Where to measure."""

    node_fs: Path
    """--root-dir."""
    image_fs: Path | None
    """Where the runtime keeps images; None if not known."""
    pods_cgroup: str
    """The cgroup that holds all pods."""
    container_fs: Path | None = None
    """Where the runtime keeps writable layers; None: with the images."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The node at one time."""

    reading: NodeReading
    disks: Disks


def measure_node(reader: CgroupReader, places: Places, proc: Path = PROC) -> Measured:
    """Measure everything that can be measured."""
    node, images = _disk(places.node_fs), _disk(places.image_fs)
    layers = _disk(places.container_fs) if places.container_fs else images
    reading = NodeReading(
        memory=_memory(reader, "/"),
        pods_memory=_memory(reader, places.pods_cgroup),
        node_fs=_reading(node),
        image_fs=_reading(images),
        container_fs=_reading(layers),
        tasks=_tasks(proc),
    )
    return Measured(reading, _layout(node, images, layers))


def _layout(node: FileSystem | None, images: FileSystem | None, layers: FileSystem | None) -> Disks:
    """Tell which have a device of their own; images do, too, if only writable layers are not on the node's (stats/provider.go)."""
    is_split = bool(images and layers and images.device_id != layers.device_id)
    return Disks(
        image_fs=is_split or bool(node and images and node.device_id != images.device_id), container_fs=is_split
    )


def _memory(reader: CgroupReader, cgroup: str) -> MemoryReading | None:
    """Return what is left of the cgroup's limit or, without one, of the machine's memory."""
    with contextlib.suppress(OSError, ValueError, LookupError):
        if usage := reader.cpu_and_memory(cgroup):
            most = memory_capacity() if usage.memory_limit is None else usage.memory_limit
            return MemoryReading(max(0, most - usage.working_set), usage.working_set, usage=usage.memory)
    return None


def _tasks(proc: Path) -> TaskReading | None:
    with contextlib.suppress(OSError, ValueError, LookupError):
        most, running = task_capacity(proc)
        return TaskReading(running, most)
    return None


def _disk(folder: Path | None) -> FileSystem | None:
    with contextlib.suppress(OSError):
        return file_system_of(folder) if folder else None
    return None


def _reading(found: FileSystem | None) -> FileSystemReading | None:
    """Return a file system's figures; one that counts no inodes has none of them free, and is not short of them."""
    if found is None:
        return None
    inodes = (found.inodes_free, found.inodes) if found.inodes else (None, None)
    return FileSystemReading(found.available, found.capacity, *inodes)
