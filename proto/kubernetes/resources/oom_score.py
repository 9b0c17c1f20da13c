"""A container's oom_score_adj: -997 is killed last, 1000 first (pkg/kubelet/qos/policy.go)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.priority import SYSTEM_CRITICAL_PRIORITY, SYSTEM_NODE_CRITICAL
from proto.kubernetes.resources.pod_totals import container_requests, is_sidecar, pod_level
from proto.kubernetes.resources.qos import QosClass, all_containers, qos_class, resource_list
from proto.kubernetes.resources.quantity import ZERO
from proto.kubernetes.source_annotations import MIRROR_ANNOTATION, SOURCE_ANNOTATION

_GUARANTEED: Final = -997
_BEST_EFFORT: Final = 1000


def oom_score_adj(pod: Mapping[str, Any], container: Mapping[str, Any], memory_capacity: int) -> int:
    """Return a container's oom_score_adj; memory_capacity is the node's, in bytes.

    Burstable containers are in between, the lower the more they request. What the pod requests beyond its containers is
    shared evenly among them.
    """
    if is_critical_by_source(pod) and (pod.get("spec") or {}).get("priorityClassName") == SYSTEM_NODE_CRITICAL:
        return _GUARANTEED
    match qos_class(pod):
        case QosClass.GUARANTEED:
            return _GUARANTEED
        case QosClass.BEST_EFFORT:
            return _BEST_EFFORT
        case QosClass.BURSTABLE:
            asked = resource_list(container, "requests").get("memory", ZERO).value
            if _is_sidecar(pod, container):  # a sidecar is killed no sooner than what it serves
                asked = max(asked, min(_memory_requests(pod), default=0))
            score = 1000 - 1000 * (asked + _share_of_pod(pod)) // memory_capacity
            return max(1000 + _GUARANTEED, min(score, _BEST_EFFORT - 1))


def is_critical_by_source(pod: Mapping[str, Any]) -> bool:
    """Report whether the pod is critical: static, or of a critical priority (pkg/kubelet/types/pod_update.go IsCriticalPod)."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    static = annotations.get(SOURCE_ANNOTATION, "api") != "api" or MIRROR_ANNOTATION in annotations
    return static or ((pod.get("spec") or {}).get("priority") or 0) >= SYSTEM_CRITICAL_PRIORITY


def _share_of_pod(pod: Mapping[str, Any]) -> int:
    """Return how many bytes the pod requests beyond its containers, for each of them."""
    asked = pod_level(pod, "requests").get("memory", ZERO).value
    if not asked:
        return 0
    left = asked - container_requests(pod).get("memory", ZERO).value
    return left // len(list(all_containers(pod)))


def _is_sidecar(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    init = (pod.get("spec") or {}).get("initContainers") or ()
    return any(is_sidecar(one) and one.get("name") == container.get("name") for one in init)


def _memory_requests(pod: Mapping[str, Any]) -> Iterator[int]:
    for container in (pod.get("spec") or {}).get("containers") or ():
        yield resource_list(container, "requests").get("memory", ZERO).value
