"""The node's properties and settings that a pod's figures depend on; built once by the worker."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class NodeSwap:
    """The node's swap, and who may use it."""

    accounted: bool = False
    """Whether the kernel accounts swap for each cgroup; if not, nothing is set."""
    capacity: int = 0
    """Bytes."""
    limited: bool = False
    """KubeletConfiguration memorySwap.swapBehavior is LimitedSwap; otherwise no container has swap."""


@dataclass(frozen=True, slots=True)
class MemoryQos:
    """The feature gate MemoryQoS, if it is on (only with cgroup v2)."""

    throttling_factor: float = 0.9
    """KubeletConfiguration memoryThrottlingFactor: from which part of its limit a container is throttled."""
    tiered: bool = False
    """KubeletConfiguration memoryReservationPolicy is TieredReservation: requests are protected from reclaim."""
    allocatable: int = 0
    """Bytes for all pods together; replaces the limit of a container without one."""
    page_size: int = 4096


NO_SWAP: Final = NodeSwap()


@dataclass(frozen=True, slots=True)
class NodeResources:
    """The properties of one node."""

    memory_capacity: int
    """Bytes."""
    cpu_cfs_quota: bool = True
    """KubeletConfiguration cpuCFSQuota."""
    cpu_cfs_quota_period: timedelta = timedelta(milliseconds=100)
    """KubeletConfiguration cpuCFSQuotaPeriod."""
    cgroup_v2: bool = False
    single_process_oom_kill: bool = False
    """KubeletConfiguration singleProcessOOMKill; always so with cgroup v1."""
    huge_page_sizes: tuple[int, ...] = ()
    """Bytes of each size of huge page that the kernel has."""
    swap: NodeSwap = NO_SWAP
    memory_qos: MemoryQos | None = None
