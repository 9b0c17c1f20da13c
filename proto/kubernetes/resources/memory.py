"""A container's memory settings besides its limit: swap, memory protection, and OOM kills of the whole cgroup.

The rules are the kubelet's (kuberuntime_container_linux.go generateLinuxContainerResources,
configureContainerSwapResources; cm/helpers_linux.go ResourceConfigForPod). Keys are files of cgroup v2.
"""

from collections.abc import Mapping
from math import floor
from typing import Any, Final

from proto.kubernetes.resources.node_resources import MemoryQos, NodeResources
from proto.kubernetes.resources.oom_score import is_critical_by_source
from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.qos import QosClass, qos_class, resource_list
from proto.kubernetes.resources.quantity import ZERO

MEMORY_MIN: Final = "memory.min"
"""Never reclaimed."""
MEMORY_LOW: Final = "memory.low"
"""Reclaimed from others first."""
MEMORY_HIGH: Final = "memory.high"
"""Throttled above."""
SWAP_MAX: Final = "memory.swap.max"
OOM_GROUP: Final = "memory.oom.group"


def oom_group(node: NodeResources) -> dict[str, str]:
    """Return the setting by which an OOM kill takes all processes of a container, which only cgroup v2 can."""
    return {OOM_GROUP: "1"} if node.cgroup_v2 and not node.single_process_oom_kill else {}


def swap_limit(memory_limit: int, node: NodeResources) -> int:
    """Return the cgroup v1 limit of memory and swap together, which allows no swap; 0: unset."""
    return memory_limit if node.swap.accounted and not node.cgroup_v2 else 0


def unified_memory(pod: Mapping[str, Any], container: Mapping[str, Any], node: NodeResources) -> dict[str, str]:
    """Return the files of a container's cgroup v2, besides its limits."""
    if not node.cgroup_v2:
        return {}
    files = oom_group(node)
    if node.swap.accounted:
        files[SWAP_MAX] = str(swap_of(pod, container, node))
    if node.memory_qos is not None:
        files |= _quality(pod, container, node.memory_qos)
    return files


def memory_protection(pod: Mapping[str, Any], node: NodeResources) -> dict[str, str]:
    """Return the files of a pod's cgroup v2 that protect its requests and overhead."""
    asked = requests_and_overhead(pod).get("memory", ZERO).value
    if not node.cgroup_v2 or node.memory_qos is None or not node.memory_qos.tiered or asked <= 0:
        return {}
    return {_protection_file(pod): str(asked)}


def swap_of(pod: Mapping[str, Any], container: Mapping[str, Any], node: NodeResources) -> int:
    """Return how many bytes of the node's swap a container may use, in proportion to its memory request.

    Only a container of a Burstable pod whose request is below its limit has any; a static pod is critical and has none.
    """
    requests, limits = resource_list(container, "requests"), resource_list(container, "limits")
    asked, limit = requests.get("memory", ZERO), limits.get("memory", ZERO)
    burstable = qos_class(pod) is QosClass.BURSTABLE and asked != limit
    if not node.swap.limited or not burstable or is_critical_by_source(pod) or asked.value > node.memory_capacity:
        return 0
    return int(asked.value / node.memory_capacity * node.swap.capacity)


def _quality(pod: Mapping[str, Any], container: Mapping[str, Any], qos: MemoryQos) -> dict[str, str]:
    asked = resource_list(container, "requests").get("memory", ZERO).value
    limit = resource_list(container, "limits").get("memory", ZERO).value
    files = {MEMORY_MIN: "0", MEMORY_LOW: "0"}
    if asked and qos.tiered:
        files = {_protection_file(pod): str(asked)}
    most = limit or qos.allocatable
    if asked != limit and most:
        high = floor((asked + (most - asked) * qos.throttling_factor) / qos.page_size) * qos.page_size
        if high > asked:
            files[MEMORY_HIGH] = str(high)
    return files


def _protection_file(pod: Mapping[str, Any]) -> str:
    return MEMORY_MIN if qos_class(pod) is QosClass.GUARANTEED else MEMORY_LOW
