"""What the kernel is told about a pod's cpu and memory: shares, quota, limit and the order of dying.

Asked by the workflow for the cgroup of the pod, its sandbox and its containers. The rules are the kubelet's
pkg/kubelet/cm/helpers_linux.go (pod), pkg/kubelet/kuberuntime/kuberuntime_container_linux.go (container),
pkg/kubelet/qos/policy.go (oom_score_adj) and k8s.io/component-helpers resource/helpers.go (sums). Facts about the node
come in as `NodeResources`. None means: leave the kernel's value alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from proto.kubernetes.priority import SYSTEM_CRITICAL_PRIORITY, SYSTEM_NODE_CRITICAL
from proto.kubernetes.qos import QosClass, qos_class, resource_list
from proto.kubernetes.quantity import ZERO, Quantity

MIN_SHARES: Final = 2  # the kernel's bounds, kernel/sched/sched.h
MAX_SHARES: Final = 262144
_MIN_QUOTA: Final = 1000  # microseconds; the kernel takes no less
_GUARANTEED_OOM_SCORE: Final = -997
_BEST_EFFORT_OOM_SCORE: Final = 1000
_SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
_MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

ResourceList = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class NodeResources:
    """Facts and settings of the node that the figures depend on."""

    memory_capacity: int
    """Bytes."""
    cpu_cfs_quota: bool = True
    """KubeletConfiguration cpuCFSQuota."""
    cpu_cfs_quota_period: timedelta = timedelta(milliseconds=100)
    """KubeletConfiguration cpuCFSQuotaPeriod."""


@dataclass(frozen=True, slots=True)
class PodResources:
    """The pod cgroup's figures; cpu_quota and cpu_period in microseconds (quota -1: no cap), memory_limit in bytes."""

    cpu_shares: int
    cpu_quota: int | None = None
    cpu_period: int | None = None
    memory_limit: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """The CRI's LinuxContainerResources; 0 is the CRI's word for unset, times in microseconds, memory in bytes."""

    cpu_shares: int
    cpu_quota: int
    cpu_period: int
    memory_limit_in_bytes: int
    oom_score_adj: int


def cpu_shares(milli_cpu: int) -> int:
    """Turn milli-CPU into CFS shares, within the kernel's bounds (MilliCPUToShares)."""
    return max(MIN_SHARES, min(milli_cpu * 1024 // 1000, MAX_SHARES))


def milli_cpu_of_shares(shares: int) -> int:
    """Turn CFS shares back into milli-CPU, rounded up; 0 for none (SharesToMilliCPU)."""
    return -(-shares * 1000 // 1024) if shares >= MIN_SHARES else 0


def milli_cpu_of_quota(quota: int, period: int) -> int:
    """Turn microseconds of cpu time in each period back into milli-CPU; 0 for no limit (QuotaToMilliCPU)."""
    return quota * 1000 // period if quota > 0 and period > 0 else 0


def cpu_quota(milli_cpu: int, period: timedelta) -> int:
    """Turn milli-CPU into microseconds of cpu time in each period; 0 for no limit (MilliCPUToQuota)."""
    if milli_cpu == 0:
        return 0
    return max(_MIN_QUOTA, milli_cpu * _microseconds(period) // 1000)


def cpu_weight(shares: int) -> int:
    """Turn cgroup v1 shares (2 to 262144) into a cgroup v2 weight (1 to 10000) by the kubelet's straight line.

    It is for the pod's and the QoS classes' own cgroups (cm/cgroup_manager_linux.go getCPUWeight); a container's weight
    is the runtime's business. 0 stays 0: unset.
    """
    if shares == 0:
        return 0
    return 1 + (max(MIN_SHARES, min(shares, MAX_SHARES)) - 2) * 9999 // 262142


def pod_requests(pod: Mapping[str, Any]) -> ResourceList:
    """Sum what the pod asks for: all that run on together, or the hungriest moment of initialization where that is more.

    An init container that ends counts together with the sidecars before it (AggregateContainerRequests).
    """
    return _pod_total(pod, "requests")


def pod_limits(pod: Mapping[str, Any]) -> ResourceList:
    """Sum what the pod may use, by the same rule as `pod_requests`."""
    return _pod_total(pod, "limits")


def pod_resources(pod: Mapping[str, Any], node: NodeResources) -> PodResources:
    """Compute the pod cgroup's figures; a limit counts only when every container has one (ResourceConfigForPod)."""
    requests, limits = pod_requests(pod), pod_limits(pod)
    shares = cpu_shares(requests.get("cpu", ZERO).milli)
    match qos_class(pod):
        case QosClass.BEST_EFFORT:
            return PodResources(cpu_shares=MIN_SHARES)
        case QosClass.GUARANTEED:
            cpu_limited = memory_limited = True
        case QosClass.BURSTABLE:
            declared = _declared_limits(pod)
            cpu_limited = all(one.get("cpu", ZERO) for one in declared)
            memory_limited = all(one.get("memory", ZERO) for one in declared)
    quota = cpu_quota(limits.get("cpu", ZERO).milli, node.cpu_cfs_quota_period) if node.cpu_cfs_quota else -1
    return PodResources(
        cpu_shares=shares,
        cpu_quota=quota if cpu_limited else None,
        cpu_period=_microseconds(node.cpu_cfs_quota_period) if cpu_limited else None,
        memory_limit=limits.get("memory", ZERO).value if memory_limited else None,
    )


def container_resources(
    pod: Mapping[str, Any], container: Mapping[str, Any], node: NodeResources
) -> ContainerResources:
    """Compute one container's figures; without a cpu request its limit takes that place."""
    requests, limits = resource_list(container, "requests"), resource_list(container, "limits")
    return _linux_resources(requests, limits, node, oom_score_adj(pod, container, node.memory_capacity))


def sandbox_resources(pod: Mapping[str, Any], node: NodeResources) -> ContainerResources:
    """Compute what the runtime is told of the whole pod with its sandbox (calculateSandboxResources)."""
    return _linux_resources(pod_requests(pod), pod_limits(pod), node, oom_score=0)


def burstable_cpu_shares(pods: Iterable[Mapping[str, Any]]) -> int:
    """Say the shares of the cgroup that holds all burstable pods; the best-effort one has always MIN_SHARES."""
    asked = (pod_requests(pod).get("cpu", ZERO).milli for pod in pods if qos_class(pod) is QosClass.BURSTABLE)
    return cpu_shares(sum(asked))


def oom_score_adj(pod: Mapping[str, Any], container: Mapping[str, Any], memory_capacity: int) -> int:
    """Say how early the kernel kills a container when memory runs out: -997 last, 1000 first.

    memory_capacity is the node's, in bytes. Burstable containers stand between, the lower the more they asked for.
    """
    if _is_node_critical(pod):
        return _GUARANTEED_OOM_SCORE
    match qos_class(pod):
        case QosClass.GUARANTEED:
            return _GUARANTEED_OOM_SCORE
        case QosClass.BEST_EFFORT:
            return _BEST_EFFORT_OOM_SCORE
        case QosClass.BURSTABLE:
            asked = resource_list(container, "requests").get("memory", ZERO).value
            if _is_sidecar(pod, container):  # it dies no sooner than what it serves
                asked = max(asked, min(_memory_requests(pod), default=0))
            score = 1000 - 1000 * asked // memory_capacity
            return max(1000 + _GUARANTEED_OOM_SCORE, min(score, _BEST_EFFORT_OOM_SCORE - 1))


def _linux_resources(
    requests: ResourceList, limits: ResourceList, node: NodeResources, oom_score: int
) -> ContainerResources:
    limit = limits.get("cpu", ZERO)
    capped = node.cpu_cfs_quota
    return ContainerResources(
        cpu_shares=cpu_shares(requests.get("cpu", limit).milli),
        cpu_quota=cpu_quota(limit.milli, node.cpu_cfs_quota_period) if capped else 0,
        cpu_period=_microseconds(node.cpu_cfs_quota_period) if capped else 0,
        memory_limit_in_bytes=limits.get("memory", ZERO).value,
        oom_score_adj=oom_score,
    )


def _pod_total(pod: Mapping[str, Any], kind: str) -> ResourceList:
    spec = pod.get("spec") or {}
    total: ResourceList = {}
    for container in spec.get("containers") or ():
        _add(total, resource_list(container, kind))
    for container in spec.get("initContainers") or ():
        if _runs_on(container):
            _add(total, resource_list(container, kind))
    for moment in _initialization(pod, kind):
        for name, amount in moment.items():
            total[name] = max(total.get(name, ZERO), amount)
    return total


def _initialization(pod: Mapping[str, Any], kind: str) -> Iterator[ResourceList]:
    """Sum what is used while each init container runs: its own, and that of the sidecars before it."""
    sidecars: ResourceList = {}
    for container in (pod.get("spec") or {}).get("initContainers") or ():
        own = resource_list(container, kind)
        if _runs_on(container):
            _add(sidecars, own)
            yield dict(sidecars)
        else:
            _add(own, sidecars)
            yield own


def _declared_limits(pod: Mapping[str, Any]) -> list[ResourceList]:
    """List the limits that must all be there for the pod to have one; a sidecar may lean on those before it."""
    regular = [resource_list(container, "limits") for container in (pod.get("spec") or {}).get("containers") or ()]
    return [*regular, *_initialization(pod, "limits")]


def _add(total: ResourceList, more: ResourceList) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, ZERO) + amount


def _runs_on(init_container: Mapping[str, Any]) -> bool:
    return init_container.get("restartPolicy") == "Always"


def _is_sidecar(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    init = (pod.get("spec") or {}).get("initContainers") or ()
    return any(_runs_on(one) and one.get("name") == container.get("name") for one in init)


def _memory_requests(pod: Mapping[str, Any]) -> Iterator[int]:
    for container in (pod.get("spec") or {}).get("containers") or ():
        yield resource_list(container, "requests").get("memory", ZERO).value


def _is_node_critical(pod: Mapping[str, Any]) -> bool:
    """Say whether the pod dies last: named system-node-critical, and static or of such a priority."""
    spec, annotations = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations") or {}
    static = annotations.get(_SOURCE_ANNOTATION, "api") != "api" or _MIRROR_ANNOTATION in annotations
    critical = static or (spec.get("priority") or 0) >= SYSTEM_CRITICAL_PRIORITY
    return critical and spec.get("priorityClassName") == SYSTEM_NODE_CRITICAL


def _microseconds(period: timedelta) -> int:
    return period // timedelta(microseconds=1)
