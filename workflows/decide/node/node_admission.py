"""Whether this node takes one more pod, beside those that it has taken: the kubelet's last word after the scheduler's.

Asked by the poller before a pod's workflow begins; a pod that is refused has Failed with this reason and message. The checks,
their order and their words are the kubelet's (pkg/kubelet/lifecycle/predicate.go, pkg/scheduler AdmissionCheck): what is asked for
against what is left of each resource, node affinity and selector, host ports, taints of NoExecute. What the machine itself cannot
do (sysctls, another system, AppArmor) is asked in `admission`, with the workflow's start. No critical pod takes the place of
another one here: preemption is not done, so it is refused like any.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.pod_totals import pod_requests
from proto.kubernetes.resources.quantity import ZERO, Quantity
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from workflows.decide.node.node_affinity import matches_node
from workflows.decide.node.tolerations import tolerates

NO_EXECUTE: Final = "NoExecute"
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_AFFINITY: Final = ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
_PORTS: Final = ("NodePorts", "node(s) didn't have free ports for the requested pod ports")
_TAINTS: Final = ("TaintToleration", "node(s) had taints that the pod didn't tolerate")
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the API's word for every address of the node


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What of a node decides about its pods."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    """By resource; `pods` is how many there may be. A resource that is not named is not checked where it is an extended one."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container takes."""

    address: str
    protocol: str
    port: int

    def collides(self, other: "HostPort") -> bool:
        """Say whether both cannot be had at once."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a pod holds of its node."""

    requests: Mapping[str, Quantity] = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()


def footprint(pod: PodJson) -> Footprint:
    """Say what a pod asks for as a whole, and which ports of the node it takes."""
    return Footprint(requests_and_overhead(pod, pod_requests(pod)), tuple(host_ports(pod)))


def why_not_taken(
    pod: PodJson, node: NodeFacts, others: Sequence[Footprint], *, static: bool = False
) -> Rejected | None:
    """Say why the node does not take the pod beside `others`, the first reason only; None when it does."""
    mine = footprint(pod)
    if lack := next(lacking(mine.requests, node, others), None):
        return lack
    if not matches_node(pod["spec"], node.labels, node.name):
        return _predicate(*_AFFINITY)
    if any(one.collides(port) for one in mine.ports for other in others for port in other.ports):
        return _predicate(*_PORTS)
    tolerations = pod["spec"].get("tolerations") or ()
    if not static and any(
        taint.get("effect") == NO_EXECUTE and not tolerates(tolerations, taint) for taint in node.taints
    ):
        return _predicate(*_TAINTS)
    return None


def lacking(wanted: Mapping[str, Quantity], node: NodeFacts, others: Sequence[Footprint]) -> Iterator[Rejected]:
    """Name each resource of which too little is left (pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest)."""
    most = node.allocatable.get("pods")
    if most is not None and len(others) + 1 > most.value:
        yield _out_of("pods", 1, len(others), most.value)
    names = [*_FIRST, *sorted(wanted.keys() - set(_FIRST))]
    asked = [name for name in names if wanted.get(name, ZERO) > ZERO and _is_checked(name, node)]
    if not asked:
        return
    used = total(other.requests for other in others)
    for name in asked:
        mine, theirs = _units(name, wanted[name]), _units(name, used.get(name, ZERO))
        capacity = _units(name, node.allocatable.get(name, ZERO))
        if mine > capacity - theirs:
            yield _out_of(name, mine, theirs, capacity)


def total(lists: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """Sum up by resource."""
    sums: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, ZERO) + amount
    return sums


def host_ports(pod: PodJson) -> Iterator[HostPort]:
    """List the ports of the node that a pod takes, by its containers and its sidecars (schedutil.GetHostPorts)."""
    spec = pod["spec"]
    sidecars = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if (number := port.get("hostPort") or 0) > 0:
                yield HostPort(port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", number)


def _is_checked(name: str, node: NodeFacts) -> bool:
    """Say whether a resource is asked of the node: an extended one that it does not know belongs to the cluster."""
    if name in node.allocatable:
        return True
    native = "/" not in name or _NATIVE_DOMAIN in name
    return native and bool(node.allocatable)


def _units(name: str, amount: Quantity) -> int:
    return amount.milli if name == "cpu" else amount.value


def _out_of(name: str, requested: int, used: int, capacity: int) -> Rejected:
    told = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejected(f"OutOf{name}", f"Node didn't have enough resource: {name}, {told}")


def _predicate(name: str, why: str) -> Rejected:
    return Rejected(name, f"Predicate {name} failed: {why}")
