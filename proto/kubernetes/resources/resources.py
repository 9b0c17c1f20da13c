"""The kernel's settings for a pod's cpu, memory and huge pages: shares, quota, limits, oom_score_adj.

Computed for the cgroup of the pod, its sandbox and its containers. The rules are the kubelet's
pkg/kubelet/cm/helpers_linux.go (pod) and pkg/kubelet/kuberuntime/kuberuntime_container_linux.go (container).
`oom_score`, `memory` (swap, protection), `huge_pages` and `pod_totals` (sums) have parts of them. None means unset.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from proto.kubernetes.resources.huge_pages import huge_page_limits
from proto.kubernetes.resources.memory import memory_protection, swap_limit, unified_memory
from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.oom_score import oom_score_adj
from proto.kubernetes.resources.overhead import limits_and_overhead, pod_overhead, requests_and_overhead
from proto.kubernetes.resources.pod_totals import ResourceList, is_limited, pod_level, pod_limits, pod_requests
from proto.kubernetes.resources.qos import QosClass, qos_class, resource_list
from proto.kubernetes.resources.quantity import ZERO

MIN_SHARES: Final = 2  # the kernel's bounds, kernel/sched/sched.h
MAX_SHARES: Final = 262144
_MIN_QUOTA: Final = 1000  # microseconds; the kernel takes no less


@dataclass(frozen=True, slots=True)
class PodResources:
    """The pod cgroup's figures; cpu_quota and cpu_period in microseconds (quota -1: no cap), memory_limit in bytes."""

    cpu_shares: int
    cpu_quota: int | None = None
    cpu_period: int | None = None
    memory_limit: int | None = None
    huge_pages: tuple[tuple[str, int], ...] = ()
    """The limit in bytes for each size of page that the node has, by the kernel's name."""
    unified: Mapping[str, str] = field(default_factory=dict)
    """More files of cgroup v2."""


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """The CRI's LinuxContainerResources; 0 is the CRI's value for unset, times in microseconds, memory in bytes."""

    cpu_shares: int
    cpu_quota: int
    cpu_period: int
    memory_limit_in_bytes: int
    oom_score_adj: int
    memory_swap_limit_in_bytes: int = 0
    """Memory and swap together, with cgroup v1."""
    hugepage_limits: tuple[tuple[str, int], ...] = ()
    unified: Mapping[str, str] = field(default_factory=dict)


def cpu_shares(milli_cpu: int) -> int:
    """Convert milli-CPU to CFS shares, within the kernel's bounds (MilliCPUToShares)."""
    return max(MIN_SHARES, min(milli_cpu * 1024 // 1000, MAX_SHARES))


def milli_cpu_of_shares(shares: int) -> int:
    """Convert CFS shares to milli-CPU, rounded up; 0 for none (SharesToMilliCPU)."""
    return -(-shares * 1000 // 1024) if shares >= MIN_SHARES else 0


def milli_cpu_of_quota(quota: int, period: int) -> int:
    """Convert a CFS quota to milli-CPU; 0 for no limit (QuotaToMilliCPU)."""
    return quota * 1000 // period if quota > 0 and period > 0 else 0


def cpu_quota(milli_cpu: int, period: timedelta) -> int:
    """Convert milli-CPU to a CFS quota; 0 for no limit (MilliCPUToQuota)."""
    if milli_cpu == 0:
        return 0
    return max(_MIN_QUOTA, milli_cpu * _microseconds(period) // 1000)


def cpu_weight(shares: int) -> int:
    """Convert cgroup v1 shares (2 to 262144) to a cgroup v2 weight (1 to 10000), linearly as the kubelet does.

    Only for the cgroups of pods and QoS classes (cm/cgroup_manager_linux.go getCPUWeight); the runtime sets a
    container's weight. 0 stays 0: unset.
    """
    if shares == 0:
        return 0
    return 1 + (max(MIN_SHARES, min(shares, MAX_SHARES)) - 2) * 9999 // 262142


def pod_resources(pod: Mapping[str, Any], node: NodeResources) -> PodResources:
    """Return the pod cgroup's figures; a limit needs the pod's own limit or one for every container.

    (ResourceConfigForPod)
    """
    requests, limits = requests_and_overhead(pod), limits_and_overhead(pod, pod_limits(pod))
    shares = cpu_shares(requests.get("cpu", ZERO).milli)
    pages = huge_page_limits(requests, node.huge_page_sizes)
    match qos_class(pod):
        case QosClass.BEST_EFFORT:
            return PodResources(cpu_shares=MIN_SHARES, huge_pages=pages)
        case QosClass.GUARANTEED:
            cpu_limited = memory_limited = True
        case QosClass.BURSTABLE:
            cpu_limited, memory_limited = is_limited(pod, "cpu"), is_limited(pod, "memory")
    quota = cpu_quota(limits.get("cpu", ZERO).milli, node.cpu_cfs_quota_period) if node.cpu_cfs_quota else -1
    return PodResources(
        cpu_shares=shares,
        cpu_quota=quota if cpu_limited else None,
        cpu_period=_microseconds(node.cpu_cfs_quota_period) if cpu_limited else None,
        memory_limit=limits.get("memory", ZERO).value if memory_limited else None,
        huge_pages=pages,
        unified=memory_protection(pod, node),
    )


def container_resources(
    pod: Mapping[str, Any], container: Mapping[str, Any], node: NodeResources
) -> ContainerResources:
    """Return a container's figures; without a cpu request its limit replaces it, without limits the pod's own do."""
    requests, limits = resource_list(container, "requests"), resource_list(container, "limits")
    of_pod = pod_level(pod, "limits")
    effective = {name: limits.get(name) or of_pod.get(name, ZERO) for name in ("cpu", "memory")}
    figures = _linux_resources(requests, effective, node)
    return replace(
        figures,
        oom_score_adj=oom_score_adj(pod, container, node.memory_capacity),
        memory_swap_limit_in_bytes=swap_limit(figures.memory_limit_in_bytes, node),
        hugepage_limits=huge_page_limits({**of_pod, **limits}, node.huge_page_sizes),
        unified=unified_memory(pod, container, node),
    )


def sandbox_resources(pod: Mapping[str, Any], node: NodeResources) -> ContainerResources:
    """Return the figures of the whole pod for the sandbox's request (calculateSandboxResources)."""
    return _linux_resources(pod_requests(pod), pod_limits(pod), node)


def overhead_resources(pod: Mapping[str, Any], node: NodeResources) -> ContainerResources | None:
    """Return the figures of the pod's overhead for the sandbox's request; None if it has none.

    (convertOverheadToLinuxResources)
    """
    overhead = pod_overhead(pod)
    return _linux_resources(overhead, overhead, node) if overhead else None


def without_quota(resources: ContainerResources) -> ContainerResources:
    """Let nothing throttle a container, or the sandbox of a pod, that has CPUs to itself (calculateLinuxResources)."""
    return replace(resources, cpu_quota=-1) if resources.cpu_period else resources


def pod_without_quota(resources: PodResources) -> PodResources:
    """Do the same for the cgroup of its pod (ResourceConfigForPod)."""
    return replace(resources, cpu_quota=-1) if resources.cpu_period else resources


def _linux_resources(requests: ResourceList, limits: ResourceList, node: NodeResources) -> ContainerResources:
    limit = limits.get("cpu", ZERO)
    capped = node.cpu_cfs_quota
    return ContainerResources(
        cpu_shares=cpu_shares(requests.get("cpu", limit).milli),
        cpu_quota=cpu_quota(limit.milli, node.cpu_cfs_quota_period) if capped else 0,
        cpu_period=_microseconds(node.cpu_cfs_quota_period) if capped else 0,
        memory_limit_in_bytes=limits.get("memory", ZERO).value,
        oom_score_adj=0,
    )


def _microseconds(period: timedelta) -> int:
    return period // timedelta(microseconds=1)
