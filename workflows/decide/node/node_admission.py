"""Why this node does not admit one more pod beside those that it has: the kubelet's check after the scheduler's.

Asked by the poller before a pod's workflow begins. A rejected pod has Failed with the first reason; a critical one that
only lacks resources may preempt others (`eviction/preemption.py`), so all reasons are told. The checks, their order and
their messages are the kubelet's (pkg/kubelet/lifecycle/predicate.go generalFilter, pkg/scheduler AdmissionCheck):
resources, node affinity and selector, host ports, NoExecute taints. What the machine itself cannot do (sysctls, another
operating system, AppArmor) is in `machine_abilities.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proto.dra.pod_claims import without_claimed
from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.quantity import ZERO, Quantity
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from workflows.decide.eviction.preemption import Lack, Reason
from workflows.decide.node.node_affinity import matches_node
from workflows.decide.tolerations import tolerates

NO_EXECUTE: Final = "NoExecute"
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_DOMAIN: Final = "kubernetes.io/"
AFFINITY: Final = "NodeAffinity"
_AFFINITY: Final = (AFFINITY, "node(s) didn't match Pod's node affinity/selector")
_PORTS: Final = ("NodePorts", "node(s) didn't have free ports for the requested pod ports")
_TAINTS: Final = ("TaintToleration", "node(s) had taints that the pod didn't tolerate")
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the API's word for every address of the node


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The node's properties that decide about its pods."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    """By resource; `pods` is the maximum number of pods. An extended resource that is not named is not checked."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container uses."""

    address: str
    protocol: str
    port: int

    def collides(self, other: "HostPort") -> bool:
        """Report whether both cannot be used at once."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a pod uses of its node."""

    requests: Mapping[str, Quantity] = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()


def footprint(pod: PodJson) -> Footprint:
    """Return a pod's requests and host ports."""
    return Footprint(requests_and_overhead(pod), tuple(host_ports(pod)))


def reasons_against(
    pod: PodJson, node: NodeFacts, others: Sequence[Footprint], *, static: bool = False
) -> tuple[Reason, ...]:
    """Return every reason to reject the pod beside `others`, the kubelet's first one first; none if it is admitted."""
    mine = footprint(without_claimed(pod))
    reasons: list[Reason] = list(lacking(mine.requests, node, others))
    if not matches_node(pod["spec"], node.labels, node.name):
        reasons.append(_predicate(*_AFFINITY))
    if any(one.collides(port) for one in mine.ports for other in others for port in other.ports):
        reasons.append(_predicate(*_PORTS))
    tolerations = pod["spec"].get("tolerations") or ()
    if not static and any(
        taint.get("effect") == NO_EXECUTE and not tolerates(tolerations, taint) for taint in node.taints
    ):
        reasons.append(_predicate(*_TAINTS))
    return tuple(reasons)


def may_be_outdated(reasons: Sequence[Reason]) -> bool:
    """Report whether a newer Node may answer otherwise: only its labels are against the pod (predicateAdmitHandler.generalFilter)."""
    return bool(reasons) and all(isinstance(one, Rejected) and one.reason == AFFINITY for one in reasons)


def lacking(wanted: Mapping[str, Quantity], node: NodeFacts, others: Sequence[Footprint]) -> Iterator[Lack]:
    """List each resource of which too little is left (pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest)."""
    most = node.allocatable.get("pods")
    if most is not None and len(others) + 1 > most.value:
        yield Lack("pods", 1, len(others), most.value)
    names = [*_FIRST, *sorted(wanted.keys() - set(_FIRST))]
    asked = [name for name in names if wanted.get(name, ZERO) > ZERO and _is_checked(name, node)]
    if not asked:
        return
    used = total(other.requests for other in others)
    for name in asked:
        mine, theirs = _units(name, wanted[name]), _units(name, used.get(name, ZERO))
        capacity = _units(name, node.allocatable.get(name, ZERO))
        if mine > capacity - theirs:
            yield Lack(name, mine, theirs, capacity)


def total(lists: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """Sum up by resource."""
    sums: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, ZERO) + amount
    return sums


def host_ports(pod: PodJson) -> Iterator[HostPort]:
    """List the host ports of a pod's containers and sidecars (schedutil.GetHostPorts)."""
    spec = pod["spec"]
    sidecars = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if (number := port.get("hostPort") or 0) > 0:
                yield HostPort(port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", number)


def _is_checked(name: str, node: NodeFacts) -> bool:
    """Report whether a resource is checked: an unknown extended resource belongs to the cluster, not the node."""
    if name in node.allocatable:
        return True
    native = "/" not in name or _NATIVE_DOMAIN in name
    return native and bool(node.allocatable)


def _units(name: str, amount: Quantity) -> int:
    return amount.milli if name == "cpu" else amount.value


def _predicate(name: str, why: str) -> Rejected:
    return Rejected(name, f"Predicate {name} failed: {why}")
