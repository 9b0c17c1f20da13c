"""How much memory each container of a pod asks for, by size of page.

The rules are getContainerRequestedResources and getPodRequestedResources in
pkg/kubelet/cm/memorymanager/policy_static.go, with the gate PodLevelResourceManagers off: a pod with resources of its
own gets none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.kubernetes.resources.pod_totals import HUGE_PAGES, is_sidecar, pod_level
from proto.kubernetes.resources.qos import QosClass, qos_class, resource_list
from proto.kubernetes.resources.quantity import NANO
from workflows.decide.memory_nodes.amounts import MEMORY

NOT_WHOLE: Final = "[memorymanager] failed to represent quantity as int64"

Sizes = Mapping[str, int]
"""Bytes by resource."""


class MemoryNodesError(Exception):
    """A container cannot be given its memory; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for."""

    name: str
    amounts: Sizes | None
    """None: one of them is no whole number of bytes."""
    ends: bool = False
    """An init container that ends before the next one starts, so that this can have its memory."""
    is_sidecar: bool = False

    @property
    def sizes(self) -> Sizes:
        """Return the amounts; raises MemoryNodesError."""
        if self.amounts is None:
            raise MemoryNodesError(NOT_WHOLE)
        return self.amounts


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod asks for; init containers come first."""

    uid: str
    containers: tuple[ContainerRequest, ...]
    is_pinned: bool = True
    """A guaranteed pod: others use all nodes."""

    def named(self, name: str) -> ContainerRequest:
        """Return a container's part."""
        return next(one for one in self.containers if one.name == name)

    def ended_before(self, name: str) -> tuple[str, ...]:
        """Name the init containers that have ended when a container starts."""
        before = self.containers[: self.containers.index(self.named(name))]
        return tuple(one.name for one in before if one.ends)

    @property
    def sizes(self) -> Sizes:
        """The most that the pod has at a time, of what its app containers ask for; raises MemoryNodesError."""
        sidecars: dict[str, int] = {}
        most: dict[str, int] = {}
        apps: dict[str, int] = {}
        for one in self.containers:
            for resource, size in one.sizes.items():
                if one.is_sidecar:
                    sidecars[resource] = sidecars.get(resource, 0) + size
                elif one.ends:
                    most[resource] = max(most.get(resource, 0), sidecars.get(resource, 0) + size)
                else:
                    apps[resource] = apps.get(resource, 0) + size
        return {
            resource: max(size + sidecars.get(resource, 0), most.get(resource, 0)) for resource, size in apps.items()
        }


def pod_request(pod: Mapping[str, Any]) -> PodRequest:
    """Read a pod's manifest."""
    spec = pod.get("spec") or {}
    inits = [_request(one, is_init=True) for one in spec.get("initContainers") or ()]
    apps = [_request(one, is_init=False) for one in spec.get("containers") or ()]
    has_own = pod_level(pod, "requests") or pod_level(pod, "limits")
    is_pinned = qos_class(pod) is QosClass.GUARANTEED and not has_own
    return PodRequest(str(pod["metadata"]["uid"]), (*inits, *apps), is_pinned)


def _request(container: Mapping[str, Any], *, is_init: bool) -> ContainerRequest:
    amounts = {
        name: amount
        for name, amount in resource_list(container, "requests").items()
        if name == MEMORY or name.startswith(HUGE_PAGES)
    }
    is_whole = all(amount.nanos % NANO == 0 for amount in amounts.values())
    sizes = {name: amount.value for name, amount in sorted(amounts.items(), key=lambda one: (one[0] != MEMORY, one[0]))}
    sidecar = is_init and is_sidecar(container)
    return ContainerRequest(container["name"], sizes if is_whole else None, is_init and not sidecar, sidecar)
