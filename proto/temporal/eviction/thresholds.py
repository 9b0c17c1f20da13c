"""Eviction signals and thresholds (pkg/kubelet/eviction/api/types.go).

Parsed from the node's KubeletConfiguration by `workflows/decide/eviction/thresholds.py`. Fields are only ever added, each
with a default.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Signal(StrEnum):
    """What is measured; the names are those of the configuration."""

    MEMORY = "memory.available"
    """Of the machine: capacity less working set, in bytes."""
    ALLOCATABLE_MEMORY = "allocatableMemory.available"
    """Of the pods' cgroup, in bytes."""
    PIDS = "pid.available"
    NODE_FS = "nodefs.available"
    """Of the file system of volumes and logs, in bytes."""
    NODE_FS_INODES = "nodefs.inodesFree"
    IMAGE_FS = "imagefs.available"
    """Of the file system of image layers, in bytes."""
    IMAGE_FS_INODES = "imagefs.inodesFree"
    CONTAINER_FS = "containerfs.available"
    """Of the file system of writable layers, in bytes; it is the same as nodefs or imagefs."""
    CONTAINER_FS_INODES = "containerfs.inodesFree"


@dataclass(frozen=True, slots=True)
class Amount:
    """An absolute quantity, or a share of the capacity."""

    quantity: str = ""
    """In the API's canonical form; empty for a share."""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Threshold:
    """The node is under pressure while less than `least` of a signal is available."""

    signal: Signal
    least: Amount
    grace: timedelta = timedelta()
    """How long it must be met before a pod is evicted; zero for a hard threshold."""
    reclaim: Amount | None = None
    """The amount that must be available in addition before the threshold counts as resolved: evictionMinimumReclaim."""

    @property
    def is_hard(self) -> bool:
        """Pods are evicted at once, and get a second to end (isHardEvictionThreshold)."""
        return self.grace == timedelta()


@dataclass(frozen=True, slots=True)
class Disks:
    """Which file systems of the node are devices of their own (DiskInfoProvider)."""

    image_fs: bool = False
    """Images or containers are not on nodefs: HasDedicatedImageFs."""
    container_fs: bool = False
    """Images and containers are on different ones: HasDedicatedContainerFs."""


@dataclass(frozen=True, slots=True)
class EvictionPolicy:
    """When a node evicts pods, and how (eviction.Config)."""

    thresholds: tuple[Threshold, ...] = ()
    transition: timedelta = timedelta(minutes=5)
    """How long a condition is shown after it was last observed: evictionPressureTransitionPeriod."""
    longest_grace_seconds: int = 0
    """For pods that a soft threshold evicts: evictionMaxPodGracePeriod."""
    local_storage: bool = True
    """Pods that exceed a limit of local storage are evicted: localStorageCapacityIsolation."""
    kernel_notifies: bool = False
    """The kernel wakes the judge when memory gets short: kernelMemcgNotification."""
