"""CPUs packed onto as few parts of the machine as possible.

The rule is takeByTopologyNUMAPacked in pkg/kubelet/cm/cpumanager/cpu_assignment.go.
"""

from workflows.decide.cpus.accumulator import Accumulator
from workflows.decide.cpus.cpu_sets import Cpus
from workflows.decide.cpus.topology import Topology


class CpusError(ValueError):
    """The CPUs cannot be given; the message is the kubelet's."""


def take_packed(
    topology: Topology, available: Cpus, count: int, *, spread: bool = False, align_by_cache: bool = False
) -> Cpus:
    """Take CPUs; raises CpusError. `spread`: single threads of many cores instead of whole cores."""
    taking = Accumulator(topology, available, count, spread=spread)
    refuse_too_many(taking, count, available)
    taking.take_whole_parts()
    if align_by_cache and not taking.is_satisfied:
        taking.take_caches()
    if not spread and not taking.is_satisfied:
        taking.take_cores()
    if not taking.is_satisfied:
        taking.take_single_cpus()
    if not taking.is_satisfied:
        raise CpusError("failed to allocate cpus")
    return taking.taken


def refuse_too_many(taking: Accumulator, count: int, available: Cpus) -> None:
    """Raise CpusError if more are needed than are free."""
    if not taking.is_satisfied and taking.has_too_few:
        raise CpusError(f"not enough cpus available to satisfy request: requested={count}, available={len(available)}")
