"""`memoryManagerPolicy` and `reservedMemory`: what is wrong with them, in the kubelet's words.

The rules are pkg/kubelet/apis/config/validation/validation_reserved_memory.go, and NewManager, validateReservedMemory and
convertReserved in pkg/kubelet/cm/memorymanager/memory_manager.go.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proto.kubernetes.go_quote import go_quoted
from proto.kubernetes.resources.pod_totals import HUGE_PAGES
from proto.kubernetes.resources.quantity import NANO, ZERO, Quantity, parse_with_form, write_quantity
from workflows.decide.memory_nodes.amounts import MEMORY
from workflows.decide.memory_nodes.requests import Sizes

NONE: Final = "None"
STATIC: Final = "Static"
BEST_EFFORT: Final = "BestEffort"
"""The policy of Windows."""

NOTHING_RESERVED: Final = "[memorymanager] you should specify the system reserved memory"


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity, and the family of its suffix."""

    quantity: Quantity = ZERO
    form: str = "m"

    def __str__(self) -> str:
        """Write it as the kubelet does."""
        return write_quantity(self.quantity, self.form)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is reserved on one NUMA node."""

    node: int
    limits: Mapping[str, Amount] = field(default_factory=dict)


class ReservationError(ValueError):
    """The memory manager cannot work so, and the node must not start; the message is the kubelet's."""


def reservations(given: Sequence[Mapping[str, Any]]) -> list[Reservation]:
    """Read the key; raises QuantityError."""
    return [
        Reservation(
            int(one.get("numaNode") or 0),
            {name: Amount(*parse_with_form(amount)) for name, amount in (one.get("limits") or {}).items()},
        )
        for one in given
    ]


def configuration_faults(given: Sequence[Reservation]) -> Iterator[str]:
    """List what no machine can have."""
    seen: set[tuple[int, str]] = set()
    for one in given:
        for resource, amount in one.limits.items():
            if resource != MEMORY and not resource.startswith(HUGE_PAGES):
                yield (
                    f"invalid configuration: the limit type {go_quoted(resource)} for NUMA node {one.node} "
                    f"is not supported, only [{MEMORY} {HUGE_PAGES}<HugePageSize>] is accepted"
                )
            if not amount.quantity:
                yield (
                    f"invalid configuration: reserved memory may not be zero for NUMA node {one.node} "
                    f"and resource {go_quoted(resource)}"
                )
            if (one.node, resource) in seen:
                yield (
                    f"invalid configuration: the reserved memory has a duplicate value for NUMA node {one.node} "
                    f"and resource {go_quoted(resource)}"
                )
            seen.add((one.node, resource))


def policy_fault(policy: str) -> str:
    """Return what is wrong with the policy; empty if it is one of Linux."""
    if policy in {NONE, STATIC}:
        return ""
    if policy == BEST_EFFORT:
        return f'policy {go_quoted(policy)} is not available for platform "linux"'
    return f"unknown policy: {go_quoted(policy)}"


def reserved_by_node(
    given: Sequence[Reservation], nodes: Collection[int], reserved: Mapping[str, Amount]
) -> dict[int, Sizes]:
    """Return what the static policy keeps from containers on each node; raises ReservationError.

    `reserved`: what the node keeps from pods, that is kubeReserved, systemReserved and the hard eviction thresholds.
    """
    if why := next(machine_faults(given, nodes, reserved), ""):
        raise ReservationError(why)
    found: dict[int, dict[str, int]] = {node: {} for node in nodes}
    for one in given:
        for resource, amount in one.limits.items():
            if amount.quantity.nanos % NANO:
                raise ReservationError("could not covert a variable of type Quantity to int64")
            found[one.node][resource] = amount.quantity.value
    if not any(sizes.get(MEMORY) for sizes in found.values()):
        raise ReservationError(NOTHING_RESERVED)
    return dict(found)


def machine_faults(
    given: Sequence[Reservation], nodes: Collection[int], reserved: Mapping[str, Amount]
) -> Iterator[str]:
    """List what does not suit the machine or the node's own reservations; the kubelet names one at random."""
    if (missing := _missing_node(given, nodes)) is not None:
        yield f"the reserved memory configuration references a NUMA node {missing} that does not exist on this machine"
        return
    for resource, total, wanted in _unequal(given, reserved):
        yield (
            f"the total amount {go_quoted(str(total))} of type {go_quoted(resource)} is not equal to the value "
            f"{go_quoted(str(wanted))} determined by Node Allocatable feature"
        )


def advice(given: Sequence[Reservation], nodes: Collection[int], reserved: Mapping[str, Amount]) -> str:
    """Say what to do about the fault that `reserved_by_node` raises, where the kubelet's words do not; empty if there is no more to say."""
    if _missing_node(given, nodes) is not None:
        return f"the machine has the NUMA nodes {', '.join(map(str, sorted(nodes)))}"
    for resource, _, wanted in _unequal(given, reserved):
        if not wanted.quantity:
            return f"the node reserves no {resource}: remove it"
        return (
            f"all {resource} in it together must be {wanted}, which is what kubeReserved, systemReserved and the hard "
            "eviction threshold keep from pods"
        )
    if not reserved.get(MEMORY, Amount()).quantity:
        return "reserve memory in kubeReserved or systemReserved, and as much in reservedMemory"
    return ""


def _missing_node(given: Sequence[Reservation], nodes: Collection[int]) -> int | None:
    return next((one.node for one in given if one.node not in nodes), None)


def _unequal(given: Sequence[Reservation], reserved: Mapping[str, Amount]) -> Iterator[tuple[str, Amount, Amount]]:
    """Yield each resource of which another sum is given than reserved, with the two."""
    totals: dict[str, Amount] = {}
    for one in given:
        for resource, amount in one.limits.items():
            before = totals.get(resource, Amount())
            form = amount.form if amount.quantity else before.form
            totals[resource] = Amount(before.quantity + amount.quantity, form)
    kinds = [one for one in reserved if one == MEMORY or one.startswith(HUGE_PAGES)]
    for resource in sorted({*totals, *kinds}):
        total, wanted = totals.get(resource, Amount()), reserved.get(resource, Amount())
        if total.quantity != wanted.quantity:
            yield resource, total, wanted
