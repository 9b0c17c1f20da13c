"""The static policy: exclusive CPUs for containers of guaranteed pods that ask for whole ones.

The rules are pkg/kubelet/cm/cpumanager/policy_static.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from workflows.decide.cpus.cpu_sets import NONE, Cpus, written_cpus
from workflows.decide.cpus.distributed import take_distributed
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.packed import CpusError, take_packed
from workflows.decide.cpus.requests import ContainerRequest, PodRequest
from workflows.decide.cpus.topology import Topology

SMT_ALIGNMENT: Final = "SMTAlignmentError"
"""The reason of a pod that is refused for its cores."""


class SmtAlignmentError(CpusError):
    """Whole cores cannot be given."""


class StateError(ValueError):
    """A state does not suit the machine, so the node must not start; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Assignments:
    """Which CPUs belong to whom."""

    shared: Cpus = NONE
    """Those of all other containers, the reserved ones among them unless these are reserved strictly."""
    containers: Mapping[str, Mapping[str, Cpus]] = field(default_factory=dict)
    """By uid of the pod and name of the container."""
    reusable_by: str = ""
    """The pod that was given CPUs last."""
    reusable: Cpus = NONE
    """What its init containers have and its next containers may have, too."""

    def of(self, uid: str, name: str) -> Cpus | None:
        """Return a container's own CPUs."""
        return self.containers.get(uid, {}).get(name)

    def of_pod(self, uid: str) -> Cpus:
        """Return all CPUs of a pod."""
        return NONE.union(*self.containers.get(uid, {}).values())

    def reusable_in(self, uid: str) -> Cpus:
        """Return what a pod's next container may have of its init containers."""
        return self.reusable if uid == self.reusable_by else NONE


@dataclass(frozen=True, slots=True)
class StaticPolicy:
    """The policy on one machine."""

    topology: Topology
    options: Options
    reserved: Cpus

    @property
    def reserved_cores(self) -> Cpus:
        """The reserved CPUs, and those that share cores with them."""
        places = self.topology.places
        return places.in_cores(*{places.by_cpu[cpu].core for cpu in self.reserved})

    @property
    def allocatable(self) -> Cpus:
        """All CPUs that containers may have to themselves."""
        return self.topology.places.cpus - self.reserved

    def available(self, assignments: Assignments) -> Cpus:
        """Those that no container has."""
        return assignments.shared - self.reserved

    def take(self, available: Cpus, count: int) -> Cpus:
        """Choose CPUs by the options; raises CpusError."""
        options = self.options
        if options.across_nodes:
            group = self.topology.cpus_per_core if options.full_cores else 1
            return take_distributed(self.topology, available, count, group, spread=options.across_cores)
        return take_packed(
            self.topology, available, count, spread=options.across_cores, align_by_cache=options.align_by_cache
        )


def static_policy(topology: Topology, options: Options, count: int, reserved: Cpus = NONE) -> StaticPolicy:
    """Reserve this number of CPUs, those that are named if any are; raises CpusError."""
    policy = StaticPolicy(topology, options, NONE)
    every = topology.places.cpus
    if not reserved:
        try:
            reserved = policy.take(every, count)
        except CpusError:
            reserved = NONE
    if len(reserved) != count:
        raise CpusError(
            "[cpumanager] unable to reserve the required amount of CPUs "
            f"(size of {written_cpus(reserved)} did not equal {count})"
        )
    if unknown := reserved - every:
        raise CpusError(
            "[cpumanager] unable to build the reserved physical CPUs from the reserved set: "
            f"unknown CPU ID: {min(unknown)}"
        )
    return replace(policy, reserved=reserved)


def begun(policy: StaticPolicy, known: Assignments) -> Assignments:
    """Return what a node starts with: what is known if it suits the machine, else raises StateError."""
    options, shared = policy.options, known.shared
    every = policy.allocatable if options.strict_reservation else policy.topology.places.cpus
    if not shared:
        if known.containers:
            raise StateError("default cpuset cannot be empty")
        return replace(known, shared=every)
    both = policy.reserved & shared
    if options.strict_reservation and both:
        raise StateError(
            f'some of strictly reserved cpus: "{written_cpus(both)}" '
            f'are present in defaultCpuSet: "{written_cpus(shared)}"'
        )
    if not options.strict_reservation and both != policy.reserved:
        raise StateError(
            f'not all reserved cpus: "{written_cpus(policy.reserved)}" '
            f'are present in defaultCpuSet: "{written_cpus(shared)}"'
        )
    for uid, containers in known.containers.items():
        for name, cpus in containers.items():
            if cpus & shared:
                raise StateError(
                    f'pod: {uid}, container: {name} cpuset: "{written_cpus(cpus)}" '
                    f'overlaps with default cpuset "{written_cpus(shared)}"'
                )
    found = shared.union(*(known.of_pod(uid) for uid in known.containers))
    if found != every:
        raise StateError(
            f'current set of available CPUs "{written_cpus(every)}" '
            f'doesn\'t match with CPUs in state "{written_cpus(found)}"'
        )
    return known


def allocate(
    policy: StaticPolicy, known: Assignments, pod: PodRequest, name: str, *, affinity: Iterable[int] | None = None
) -> Assignments:
    """Give a container its CPUs, those of the NUMA nodes in `affinity` first; raises CpusError."""
    container = pod.named(name)
    if not container.cpus:
        return known
    _refuse_parts_of_cores(policy, known, container.cpus)
    if (has := known.of(pod.uid, name)) is not None:
        return _reusing(known, pod, container, has)
    available = policy.available(known) | known.reusable_in(pod.uid)
    given = NONE
    if affinity is not None:
        aligned = available & _in_affinity(policy, tuple(affinity))
        given = policy.take(aligned, min(container.cpus, len(aligned)))
    given |= policy.take(available - given, container.cpus - len(given))
    containers = {**known.containers, pod.uid: {**known.containers.get(pod.uid, {}), name: given}}
    return _reusing(replace(known, shared=known.shared - given, containers=containers), pod, container, given)


def released(known: Assignments, uid: str, name: str) -> Assignments:
    """Take a container's CPUs back, except those that other containers of its pod have."""
    has = known.of(uid, name)
    if has is None:
        return known
    others = {other: cpus for other, cpus in known.containers[uid].items() if other != name}
    containers = {pod: given for pod, given in known.containers.items() if pod != uid}
    if others:
        containers[uid] = others
    return replace(known, shared=known.shared | (has - NONE.union(*others.values())), containers=containers)


def _refuse_parts_of_cores(policy: StaticPolicy, known: Assignments, count: int) -> None:
    if not policy.options.full_cores:
        return
    per_core = policy.topology.cpus_per_core
    if count % per_core:
        raise SmtAlignmentError(f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}")
    free = len(known.shared - policy.reserved_cores)
    if count > free:
        raise SmtAlignmentError(
            f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, "
            f"requested CPUs = {count}, CPUs per core = {per_core}"
        )


def _in_affinity(policy: StaticPolicy, nodes: tuple[int, ...]) -> Cpus:
    places = policy.topology.places
    if policy.options.align_by_socket:
        return places.in_socket(*places.sockets_of_nodes(*nodes))
    return places.in_nodes(*nodes)


def _reusing(known: Assignments, pod: PodRequest, container: ContainerRequest, cpus: Cpus) -> Assignments:
    """Let the next containers of the pod have what an init container has that ends; take from that what one has that stays."""
    before = known.reusable_in(pod.uid)
    return replace(known, reusable_by=pod.uid, reusable=before | cpus if container.ends else before - cpus)
