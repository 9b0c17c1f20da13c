"""What was measured of a node and its pods: the part of /stats/summary that evictions are decided by.

Sizes are bytes. What could not be measured is None or absent. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime

from proto.temporal.eviction.thresholds import Signal


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Memory of the machine or of a cgroup."""

    available: int
    working_set: int
    at: datetime | None = None
    usage: int | None = None
    """The working set, and files that the kernel may drop."""


@dataclass(frozen=True, slots=True)
class FileSystemReading:
    """One file system; a file system without inodes has none of the two last figures."""

    available: int | None = None
    capacity: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskReading:
    """Processes and threads."""

    running: int
    most: int
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """All that the signals are made of."""

    memory: MemoryReading | None = None
    pods_memory: MemoryReading | None = None
    """Of the cgroup of all pods, with its limit."""
    node_fs: FileSystemReading | None = None
    image_fs: FileSystemReading | None = None
    container_fs: FileSystemReading | None = None
    tasks: TaskReading | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """How much of a signal is available: bytes, inodes or process ids."""

    available: int
    capacity: int
    at: datetime | None = None


Observations = dict[Signal, Observation]


@dataclass(frozen=True, slots=True)
class FileUse:
    """Files of a container or a volume."""

    used: int | None = None
    inodes: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container uses."""

    name: str
    memory: int | None = None
    """Working set."""
    root: FileUse | None = None
    """Its writable layer."""
    logs: FileUse | None = None


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod uses."""

    memory: int | None = None
    """Working set."""
    processes: int | None = None
    local_storage: int | None = None
    """Writable layers, logs and volumes on disk together."""
    containers: tuple[ContainerUse, ...] = ()
    volumes: dict[str, FileUse] = field(default_factory=dict)
    """By the volume's name."""
