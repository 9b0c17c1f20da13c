"""The requests and limits of a whole pod: its own `spec.resources`, else the sum of its containers.

The rules are k8s.io/component-helpers resource/helpers.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.resources.qos import resource_list
from proto.kubernetes.resources.quantity import ZERO, Quantity, parse_quantity

ResourceList = dict[str, Quantity]
HUGE_PAGES: Final = "hugepages-"
POD_LEVEL: Final = ("cpu", "memory")
"""What `spec.resources` may name, besides huge pages (SupportedPodLevelResources)."""


def is_pod_level(name: str) -> bool:
    """Report whether `spec.resources` may name a resource."""
    return name in POD_LEVEL or name.startswith(HUGE_PAGES)


def pod_level(pod: Mapping[str, Any], kind: str) -> ResourceList:
    """Return the `requests` or `limits` of `spec.resources`."""
    entries = ((pod.get("spec") or {}).get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(amount) for name, amount in entries.items() if is_pod_level(name)}


def pod_requests(pod: Mapping[str, Any]) -> ResourceList:
    """Return the pod's requests (PodRequests)."""
    return {**container_requests(pod), **pod_level(pod, "requests")}


def pod_limits(pod: Mapping[str, Any]) -> ResourceList:
    """Return the pod's limits (PodLimits)."""
    return {**container_limits(pod), **pod_level(pod, "limits")}


def container_requests(pod: Mapping[str, Any]) -> ResourceList:
    """Sum the containers' requests: all that run on together, or the peak of initialization if that is more.

    An init container that ends counts together with the sidecars before it (AggregateContainerRequests).
    """
    return _total(pod, "requests")


def container_limits(pod: Mapping[str, Any]) -> ResourceList:
    """Sum the containers' limits by the same rule."""
    return _total(pod, "limits")


def is_limited(pod: Mapping[str, Any], name: str) -> bool:
    """Report whether the whole pod has a limit: its own, or one for each container.

    A sidecar may rely on the limits of those before it.
    """
    if pod_level(pod, "limits").get(name, ZERO):
        return True
    regular = [resource_list(container, "limits") for container in (pod.get("spec") or {}).get("containers") or ()]
    return all(one.get(name, ZERO) for one in (*regular, *_initialization(pod, "limits")))


def is_sidecar(init_container: Mapping[str, Any]) -> bool:
    """Report whether an init container is a sidecar."""
    return init_container.get("restartPolicy") == "Always"


def _total(pod: Mapping[str, Any], kind: str) -> ResourceList:
    spec = pod.get("spec") or {}
    total: ResourceList = {}
    for container in spec.get("containers") or ():
        _add(total, resource_list(container, kind))
    for container in spec.get("initContainers") or ():
        if is_sidecar(container):
            _add(total, resource_list(container, kind))
    for moment in _initialization(pod, kind):
        for name, amount in moment.items():
            total[name] = max(total.get(name, ZERO), amount)
    return total


def _initialization(pod: Mapping[str, Any], kind: str) -> Iterator[ResourceList]:
    """Yield the sums during each init container: its own and those of the sidecars before it."""
    sidecars: ResourceList = {}
    for container in (pod.get("spec") or {}).get("initContainers") or ():
        own = resource_list(container, kind)
        if is_sidecar(container):
            _add(sidecars, own)
            yield dict(sidecars)
        else:
            _add(own, sidecars)
            yield own


def _add(total: ResourceList, more: ResourceList) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, ZERO) + amount
