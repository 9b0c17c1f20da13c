"""Facts and settings of the node that the figures of a pod depend on; made once by the worker.

`resources` asks for all of it, `memory` for what concerns swap and protection.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class NodeSwap:
    """What of swap there is, and who may use it."""

    accounted: bool = False
    """Whether the kernel counts it for each cgroup; else nothing is told of it."""
    capacity: int = 0
    """Bytes."""
    limited: bool = False
    """KubeletConfiguration memorySwap.swapBehavior is LimitedSwap; else no container has any."""


@dataclass(frozen=True, slots=True)
class MemoryQos:
    """The feature gate MemoryQoS, where it is on (only cgroup v2 can)."""

    throttling_factor: float = 0.9
    """KubeletConfiguration memoryThrottlingFactor: how near to its limit a container is slowed down."""
    tiered: bool = False
    """KubeletConfiguration memoryReservationPolicy is TieredReservation: what was asked for is kept from reclaim."""
    allocatable: int = 0
    """Bytes that pods may have together; stands for the limit of a container without one."""
    page_size: int = 4096


NO_SWAP: Final = NodeSwap()


@dataclass(frozen=True, slots=True)
class NodeResources:
    """One node."""

    memory_capacity: int
    """Bytes."""
    cpu_cfs_quota: bool = True
    """KubeletConfiguration cpuCFSQuota."""
    cpu_cfs_quota_period: timedelta = timedelta(milliseconds=100)
    """KubeletConfiguration cpuCFSQuotaPeriod."""
    cgroup_v2: bool = False
    single_process_oom_kill: bool = False
    """KubeletConfiguration singleProcessOOMKill; cgroup v1 knows nothing else."""
    huge_page_sizes: tuple[int, ...] = ()
    """Bytes of each size of huge page that the kernel has."""
    swap: NodeSwap = NO_SWAP
    memory_qos: MemoryQos | None = None
