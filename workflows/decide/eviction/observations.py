"""What was measured, as observations of signals (pkg/kubelet/eviction/helpers.go makeSignalObservations).

A signal that was not measured has no observation, and its thresholds are not met.
"""

from collections.abc import Iterator

from proto.temporal.eviction.readings import FileSystemReading, MemoryReading, NodeReading, Observation, Observations
from proto.temporal.eviction.thresholds import Signal


def observations(node: NodeReading) -> Observations:
    """Return the observations that a reading allows."""
    found: Observations = {}
    if node.memory:
        found[Signal.MEMORY] = _of_memory(node.memory)
    if node.pods_memory:
        found[Signal.ALLOCATABLE_MEMORY] = _of_memory(node.pods_memory)
    if tasks := node.tasks:
        found[Signal.PIDS] = Observation(tasks.most - tasks.running, tasks.most, tasks.at)
    found.update(_of_disk(node.node_fs, Signal.NODE_FS, Signal.NODE_FS_INODES))
    found.update(_of_disk(node.image_fs, Signal.IMAGE_FS, Signal.IMAGE_FS_INODES))
    found.update(_of_disk(node.container_fs, Signal.CONTAINER_FS, Signal.CONTAINER_FS_INODES))
    return found


def _of_memory(read: MemoryReading) -> Observation:
    """The capacity is the sum of both figures, not the machine's."""
    return Observation(read.available, read.available + read.working_set, read.at)


def _of_disk(read: FileSystemReading | None, in_bytes: Signal, inodes: Signal) -> Iterator[tuple[Signal, Observation]]:
    if read is None:
        return
    if read.available is not None and read.capacity is not None:
        yield in_bytes, Observation(read.available, read.capacity, read.at)
    if read.inodes_free is not None and read.inodes is not None:
        yield inodes, Observation(read.inodes_free, read.inodes, read.at)
