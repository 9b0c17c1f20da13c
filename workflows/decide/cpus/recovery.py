"""Who has which CPUs, by what the runtime says of its containers: for a node that has lost `cpu_manager_state`.

A kubelet begins with nothing then, gives the CPUs of running containers to the pods that it looks at first, and moves the others.
Here a container keeps what it has. Only what the static policy gives is taken for its own: whole CPUs of a guaranteed pod, as many as
its shares say, none of them reserved or shared. No CPU is left to two pods.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from proto.cri.runtime_container import RuntimeContainer, as_believed
from proto.kubernetes.resources.resources import cpu_shares
from workflows.decide.cpus.cpu_sets import NONE, Cpus, written_cpus
from workflows.decide.cpus.static_policy import Assignments, StaticPolicy
from workflows.decide.topology.number_sets import read_set


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found."""

    assignments: Assignments = field(default_factory=Assignments)
    """Empty, without shared CPUs, if no container has any of its own."""
    ignored: tuple[str, ...] = ()
    """What was not taken back, one sentence each."""


def recovered(policy: StaticPolicy, found: Iterable[RuntimeContainer]) -> Recovered:
    """Return which containers have CPUs of their own. Of two that have the same ones the one that runs has them, then the older one."""
    every = policy.allocatable if policy.options.strict_reservation else policy.topology.places.cpus
    containers: dict[str, dict[str, Cpus]] = {}
    owners: dict[int, RuntimeContainer] = {}
    ignored: list[str] = []
    for one, cpus in _claims(policy, tuple(found), ignored):
        owner = next((owners[cpu] for cpu in sorted(cpus) if cpu in owners and not _may_share(one, owners[cpu])), None)
        if owner:
            ignored.append(f"{one} has CPU {written_cpus(cpus)} as {owner} does, which keeps them")
        elif not every - owners.keys() - cpus:
            ignored.append(f"{one} has CPU {written_cpus(cpus)}: nothing would be left to share")
        else:
            containers.setdefault(one.uid, {})[one.name] = cpus
            owners.update({cpu: one for cpu in cpus if cpu not in owners})
    if not containers:
        return Recovered(ignored=tuple(ignored))
    return Recovered(Assignments(every - owners.keys(), containers), tuple(ignored))


def _claims(
    policy: StaticPolicy, found: tuple[RuntimeContainer, ...], ignored: list[str]
) -> Iterator[tuple[RuntimeContainer, Cpus]]:
    """Yield the containers that look as if they had CPUs of their own, in the order in which they are believed."""
    read: list[tuple[RuntimeContainer, Cpus]] = []
    for one in as_believed(found):
        cpus = read_set(one.cpuset_cpus, policy.topology.places.cpus) if one.cpuset_cpus else NONE
        if cpus is None:
            ignored.append(f"{one} has CPUs that this machine does not have, or that cannot be read")
        elif cpus:
            read.append((one, cpus))
    shared = {cpus for one, cpus in read if not _asks_for(one, len(cpus))}
    for one, cpus in read:
        if _asks_for(one, len(cpus)) and cpus not in shared and not cpus & policy.reserved:
            yield one, cpus


def _asks_for(one: RuntimeContainer, count: int) -> bool:
    """Report whether a container asks for so many whole CPUs, as far as the runtime knows what it asks for."""
    return one.is_guaranteed and one.cpu_shares == cpu_shares(count * 1000)


def _may_share(one: RuntimeContainer, other: RuntimeContainer) -> bool:
    """Report whether one may have a CPU of the other's: what an init container had that has ended is the next one's."""
    return one.uid == other.uid and not (one.is_up and other.is_up)
