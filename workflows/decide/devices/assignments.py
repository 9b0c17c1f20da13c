"""Which devices containers have, by pod and resource; and the answers of plugins, which tell how to use them.

The rules are pkg/kubelet/cm/devicemanager/pod_devices.go and devicesToReuse in manager.go.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from proto.temporal.hardware.ledger import PodAssignment
from workflows.decide.devices.allocation import ordered
from workflows.decide.devices.inventory import WITHOUT_TOPOLOGY, Listed

MOST_TOLD: Final = 16
"""Devices in a sentence."""
PerNode = Mapping[int, tuple[str, ...]]
"""Devices by NUMA node; one that is near to several is in each."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The devices of one resource that a container has."""

    devices: PerNode
    answer: bytes | None = b""
    """The plugin's ContainerAllocateResponse, encoded; None: not known, because the checkpoint was lost."""

    @property
    def ids(self) -> frozenset[str]:
        """Return the devices."""
        return frozenset(one for devices in self.devices.values() for one in devices)

    def words(self, container: str, resource: str) -> str:
        """Say which devices a container has and where they are; of many, some."""
        nodes = [str(node) for node in sorted(self.devices) if node >= 0]
        where = f" (NUMA node {', '.join(nodes)})" if nodes else ""
        ids = ordered(self.ids)
        named = ", ".join(ids[:MOST_TOLD]) + (f" and {len(ids) - MOST_TOLD} more" if ids[MOST_TOLD:] else "")
        return f"container {container} has {resource} {named}{where}: it asks for {len(ids)}"


@dataclass(frozen=True, slots=True)
class Assignments:
    """All that is assigned: by pod uid, container and resource."""

    pods: Mapping[str, Mapping[str, Mapping[str, Assigned]]] = field(default_factory=dict)

    def of(self, uid: str, container: str, resource: str) -> frozenset[str] | None:
        """Return what a container has of a resource; None: nothing was ever assigned."""
        found = self.pods.get(uid, {}).get(container, {}).get(resource)
        return None if found is None else found.ids

    def of_pod(self, uid: str, resource: str) -> frozenset[str]:
        """Return what all containers of a pod have of a resource."""
        return frozenset().union(*(self.of(uid, one, resource) or () for one in self.pods.get(uid, {})))

    def used(self, resource: str) -> frozenset[str]:
        """Return what all pods have of a resource."""
        return frozenset().union(*(self.of_pod(uid, resource) for uid in self.pods))

    def resources(self) -> frozenset[str]:
        """Name the resources of which somebody has devices."""
        return frozenset(name for _, _, name, _ in self.entries())

    def entries(self) -> Iterator[tuple[str, str, str, Assigned]]:
        """Yield each entry with its pod's uid, its container and its resource."""
        for uid, containers in self.pods.items():
            for container, resources in containers.items():
                for resource, assigned in resources.items():
                    yield uid, container, resource, assigned

    def unanswered(self) -> dict[str, dict[str, dict[str, PerNode]]]:
        """Return what containers have of which the plugin's answer is not known."""
        found: dict[str, dict[str, dict[str, PerNode]]] = {}
        for uid, container, resource, assigned in self.entries():
            if assigned.answer is None and assigned.ids:
                found.setdefault(uid, {}).setdefault(container, {})[resource] = assigned.devices
        return found

    def reusable(self, uid: str, resource: str, before: Collection[str]) -> frozenset[str]:
        """Return what the init containers before a container leave to it; `before` are those that have run to their end.

        What another container of the pod has for itself by now, a sidecar or a regular one, is left out.
        """
        containers = self.pods.get(uid, {})
        left: frozenset[str] = frozenset()
        for name in containers:
            if name in before:
                left |= self.of(uid, name, resource) or frozenset()
        for name in containers:
            if name not in before:
                left -= self.of(uid, name, resource) or frozenset()
        return left

    def with_assigned(self, uid: str, container: str, resource: str, assigned: Assigned) -> "Assignments":
        """Return these and one more, which replaces an older one."""
        containers = self.pods.get(uid, {})
        resources = {**containers.get(container, {}), resource: assigned}
        return Assignments({**self.pods, uid: {**containers, container: resources}})

    def only(self, uids: Collection[str]) -> "Assignments":
        """Return those of pods that still count."""
        return Assignments({uid: containers for uid, containers in self.pods.items() if uid in uids})


def of_ledger(pod: PodAssignment) -> Iterator[tuple[str, str, Assigned]]:
    """Yield what the ledger knows of a pod, with container and resource; it does not know what plugins answered."""
    for container, given in pod.containers.items():
        by_resource: dict[str, dict[int, tuple[str, ...]]] = {}
        for one in given.devices:
            by_resource.setdefault(one.resource, {})[one.node] = one.ids
        for resource, devices in by_resource.items():
            yield container, resource, Assigned(devices, None)


def size_of(devices: PerNode) -> int:
    """Count the bytes of the devices' names, once for each node near them, as they are written down."""
    return sum(len(one.encode()) for ids in devices.values() for one in ids)


def per_node(listed: Listed, devices: Collection[str]) -> PerNode:
    """Sort devices by the NUMA nodes near them."""
    found: dict[int, list[str]] = {}
    for device in sorted(devices):
        for node in listed.near(device) or (WITHOUT_TOPOLOGY,):
            found.setdefault(node, []).append(device)
    return {node: tuple(found[node]) for node in sorted(found)}
