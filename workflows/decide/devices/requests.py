"""What a pod's containers want of plugins, in the order in which they get it: init containers first.

The rules are getContainerDeviceRequest, getPodDeviceRequest and Allocate in pkg/kubelet/cm/devicemanager. Limits count: an extended
resource's request is equal to its limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.kubernetes.resources.extended import is_extended_resource
from proto.kubernetes.resources.pod_totals import is_sidecar, pod_limits
from proto.kubernetes.resources.qos import resource_list

NOT_REGISTERED: Final = "DevicePluginNotRegistered"
"""Our own reason: the pod waits for its device plugin, and is asked for again."""


@dataclass(frozen=True, slots=True)
class ContainerWants:
    """One container."""

    name: str
    wanted: Mapping[str, int]
    """By extended resource, also those of which it wants none; whether a plugin has it is not known here."""
    before: frozenset[str]
    """The init containers before it that run to their end, whose devices it may take over."""


def container_wants(pod: Mapping[str, Any]) -> Iterator[ContainerWants]:
    """Yield every container, in order."""
    spec = pod.get("spec") or {}
    ended: frozenset[str] = frozenset()
    for container in spec.get("initContainers") or ():
        yield ContainerWants(container["name"], wanted_by(container), ended)
        if not is_sidecar(container):
            ended |= {container["name"]}
    for container in spec.get("containers") or ():
        yield ContainerWants(container["name"], wanted_by(container), ended)


def pod_wants(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return what the whole pod wants, by extended resource."""
    return {name: amount.value for name, amount in pod_limits(pod).items() if is_extended_resource(name)}


def wanted_by(container: Mapping[str, Any]) -> dict[str, int]:
    """Return what one container wants, by extended resource."""
    return {
        name: amount.value for name, amount in resource_list(container, "limits").items() if is_extended_resource(name)
    }
