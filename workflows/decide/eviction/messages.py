"""The words of an eviction: status.message, and the annotations of its event (pkg/kubelet/eviction/helpers.go evictionMessage).

Tools read the annotations, so names and texts are the kubelet's.
"""

from typing import Final

from proto.kubernetes.resources.quantity import NANO, parse_quantity
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.readings import ContainerUse, Observation, PodUse
from proto.temporal.eviction.thresholds import Threshold
from workflows.decide.eviction.amounts import amount_text, count_text, size_text
from workflows.decide.eviction.signals import MEMORY, SIGNALS, STORAGE

REASON: Final = "Evicted"
THRESHOLD_MET: Final = "EvictionThresholdMet"
"""The reason of the event about the node."""
OFFENDING_CONTAINERS: Final = "offending_containers"
OFFENDING_CONTAINERS_USAGE: Final = "offending_containers_usage"
OFFENDING_POD: Final = "offending_pod"
OFFENDING_POD_USAGE: Final = "offending_pod_usage"
STARVED_RESOURCE: Final = "starved_resource"


def attempting(resource: str) -> str:
    """Return the message of the event about the node."""
    return f"Attempting to reclaim {resource}"


def eviction_message(threshold: Threshold, found: Observation, pod: Candidate, use: PodUse | None) -> str:
    """Return the pod's status.message."""
    row = SIGNALS[threshold.signal]
    available = size_text(found.available) if row.in_bytes else count_text(found.available)
    said = f"The node was low on resource: {row.resource}. "
    said += f"Threshold quantity: {amount_text(threshold.least, found.capacity)}, available: {available}. "
    if use is None:
        return said
    if _names_pod(row.resource, pod, use):
        said += f"Pod {_more(pod.name, size_text(use.memory or 0), pod.pod_level_memory, row.resource)}"
    for name, used, request in _exceeding(row.resource, pod, use):
        said += f"Container {_more(name, used, request, row.resource)}"
    return said


def eviction_annotations(resource: str, pod: Candidate, use: PodUse | None) -> dict[str, str]:
    """Return the annotations of the pod's event; none for a pod without statistics."""
    if use is None:
        return {}
    found = {OFFENDING_POD: pod.name, OFFENDING_POD_USAGE: size_text(use.memory or 0)}
    exceeding = _exceeding(resource, pod, use)
    return {
        **(found if _names_pod(resource, pod, use) else {}),
        OFFENDING_CONTAINERS: ",".join(name for name, _, _ in exceeding),
        OFFENDING_CONTAINERS_USAGE: ",".join(used for _, used, _ in exceeding),
        STARVED_RESOURCE: resource,
    }


def _names_pod(resource: str, pod: Candidate, use: PodUse) -> bool:
    """Report whether the whole pod is named; the kubelet names it even if it uses less than it requests."""
    return resource == MEMORY and bool(pod.pod_level_memory) and use.memory is not None


def _exceeding(resource: str, pod: Candidate, use: PodUse) -> list[tuple[str, str, str]]:
    """Return name, use and request of the containers that use more than they request."""
    requests = {one.name: one.requests.get(resource, "0") for one in reversed(pod.containers)}
    found = []
    for container in use.containers:
        used = _container_use(resource, container)
        request = requests.get(container.name)
        if used is not None and request is not None and used * NANO > parse_quantity(request).nanos:
            found.append((container.name, size_text(used), request))
    return found


def _container_use(resource: str, container: ContainerUse) -> int | None:
    """Return what a container uses of a resource; None for a resource that containers are not measured by."""
    if resource == MEMORY:
        return container.memory
    if resource != STORAGE or container.root is None or container.logs is None:
        return None
    root, logs = container.root.used, container.logs.used
    return None if root is None or logs is None else root + logs


def _more(name: str, used: str, request: str, resource: str) -> str:
    return f"{name} was using {used}, request is {request}, has larger consumption of {resource}. "
