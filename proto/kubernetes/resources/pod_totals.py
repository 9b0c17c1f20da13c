"""What a pod asks for and may use altogether: by its own `spec.resources` where they say it, else by the sum of its containers.

Asked where a pod's cgroup, sandbox and order of dying are computed, where a resize is judged, and by defaulting and validation.
The rules are k8s.io/component-helpers resource/helpers.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.resources.qos import resource_list
from proto.kubernetes.resources.quantity import ZERO, Quantity, parse_quantity

ResourceList = dict[str, Quantity]
HUGE_PAGES: Final = "hugepages-"
OF_PODS: Final = ("cpu", "memory")
"""What `spec.resources` may name, beside huge pages (SupportedPodLevelResources)."""


def of_pods(name: str) -> bool:
    """Say whether a pod as a whole can ask for a resource."""
    return name in OF_PODS or name.startswith(HUGE_PAGES)


def pod_level(pod: Mapping[str, Any], kind: str) -> ResourceList:
    """Read the `requests` or `limits` that stand for the whole pod."""
    entries = ((pod.get("spec") or {}).get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(amount) for name, amount in entries.items() if of_pods(name)}


def pod_requests(pod: Mapping[str, Any]) -> ResourceList:
    """Say what the pod asks for (PodRequests)."""
    return {**container_requests(pod), **pod_level(pod, "requests")}


def pod_limits(pod: Mapping[str, Any]) -> ResourceList:
    """Say what the pod may use (PodLimits)."""
    return {**container_limits(pod), **pod_level(pod, "limits")}


def container_requests(pod: Mapping[str, Any]) -> ResourceList:
    """Sum what the containers ask for: all that run on together, or the hungriest moment of initialization where that is more.

    An init container that ends counts together with the sidecars before it (AggregateContainerRequests).
    """
    return _total(pod, "requests")


def container_limits(pod: Mapping[str, Any]) -> ResourceList:
    """Sum what the containers may use, by the same rule."""
    return _total(pod, "limits")


def is_limited(pod: Mapping[str, Any], name: str) -> bool:
    """Say whether all of the pod is limited: by the pod's own limit, or by one of each container.

    A sidecar may lean on the limits of those before it.
    """
    if pod_level(pod, "limits").get(name, ZERO):
        return True
    regular = [resource_list(container, "limits") for container in (pod.get("spec") or {}).get("containers") or ()]
    return all(one.get(name, ZERO) for one in (*regular, *_initialization(pod, "limits")))


def runs_on(init_container: Mapping[str, Any]) -> bool:
    """Say whether an init container is a sidecar."""
    return init_container.get("restartPolicy") == "Always"


def _total(pod: Mapping[str, Any], kind: str) -> ResourceList:
    spec = pod.get("spec") or {}
    total: ResourceList = {}
    for container in spec.get("containers") or ():
        _add(total, resource_list(container, kind))
    for container in spec.get("initContainers") or ():
        if runs_on(container):
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
        if runs_on(container):
            _add(sidecars, own)
            yield dict(sidecars)
        else:
            _add(own, sidecars)
            yield own


def _add(total: ResourceList, more: ResourceList) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, ZERO) + amount
