"""CPUs spread evenly over as few NUMA nodes as can hold them evenly.

The rule is takeByTopologyNUMADistributed in pkg/kubelet/cm/cpumanager/cpu_assignment.go.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from workflows.decide.cpus.accumulator import Accumulator, free_in_nodes
from workflows.decide.cpus.cpu_sets import Cpus
from workflows.decide.cpus.packed import CpusError, refuse_too_many, take_packed
from workflows.decide.cpus.topology import Topology


@dataclass(slots=True)
class _Best:
    """The most balanced choice so far: the standard deviation of what it leaves free on all NUMA nodes."""

    balance: float = math.inf
    nodes: Sequence[int] = ()
    remainder: Sequence[int] = ()
    """The nodes that give the CPUs which cannot be divided evenly."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    count: int
    group: int

    def per_node(self, nodes: int) -> int:
        """How many CPUs each NUMA node gives, in whole groups."""
        return self.count // nodes // self.group * self.group


def take_distributed(topology: Topology, available: Cpus, count: int, group: int, *, spread: bool = False) -> Cpus:
    """Take CPUs in groups of this size; raises CpusError."""
    if count % group:
        return take_packed(topology, available, count, spread=spread)
    taking = Accumulator(topology, available, count, spread=spread)
    refuse_too_many(taking, count, available)
    if taking.is_satisfied:
        return taking.taken
    wanted = _Wanted(count, group)
    nodes = taking.sorted_nodes()
    free = free_in_nodes(taking.free, nodes)
    for size in _node_counts(taking, group):
        best = _best(free, combinations(nodes, size), wanted)
        if best.nodes:
            return _take(taking, best, wanted, spread=spread)
    return take_packed(topology, available, count, spread=spread)


def _node_counts(taking: Accumulator, group: int) -> range:
    """Return how many NUMA nodes could hold the CPUs: rangeNUMANodesNeededToSatisfy."""
    places = taking.topology.places
    groups_per_node = ((len(places) - 1) // group + 1 - 1) // len(places.nodes) + 1
    needed = (taking.needed - 1) // group + 1
    return range((needed - 1) // groups_per_node + 1, min(needed, len(taking.free.nodes)) + 1)


def _best(free: Mapping[int, int], choices: Iterator[Sequence[int]], wanted: _Wanted) -> _Best:
    best = _Best()
    for nodes in choices:
        if best.balance == 0:
            break  # after the choice was made, which may have overwritten the best one
        per_node = wanted.per_node(len(nodes))
        if not _suffice([free[one] for one in nodes], per_node, wanted):
            continue
        left = {node: count - per_node * (node in nodes) for node, count in free.items()}
        found = _best_remainder(left, nodes, wanted.count - per_node * len(nodes), wanted.group)
        if found.balance < best.balance:
            best = found
            best.nodes = nodes
    return best


def _suffice(free: Sequence[int], per_node: int, wanted: _Wanted) -> bool:
    in_groups = sum(one // wanted.group for one in free) * wanted.group
    return sum(free) >= wanted.count and in_groups >= wanted.count and min(free) >= per_node


def _best_remainder(left: Mapping[int, int], nodes: Iterable[int], remainder: int, group: int) -> _Best:
    """Choose which nodes give the remainder, as many as possible first."""
    if not remainder:
        return _Best(_deviation(left.values()))
    best = _Best()
    able = [one for one in nodes if left[one] >= group]
    for size in range(len(able), 0, -1):
        for some in combinations(able, size):
            after = _after(left, some, remainder, group)
            if after is not None and (balance := _deviation(after.values())) < best.balance:
                best = _Best(balance, remainder=some)
    return best


def _after(left: Mapping[int, int], nodes: Sequence[int], remainder: int, group: int) -> dict[int, int] | None:
    """Count what is free after the nodes have given the remainder in turns; None if they cannot."""
    if sum(left[one] for one in nodes) < remainder:
        return None
    after = dict(left)
    while remainder > 0:
        given = remainder
        for node in nodes:
            if remainder and after[node] >= group:
                after[node] -= group
                remainder -= group
        if given == remainder:
            return None  # only parts of groups are left; the kubelet never leaves this loop
    return after


def _take(taking: Accumulator, best: _Best, wanted: _Wanted, *, spread: bool) -> Cpus:
    per_node = wanted.per_node(len(best.nodes))
    for node in best.nodes:
        _take_of(taking, node, per_node, spread=spread)
    remainder = wanted.count - per_node * len(best.nodes)
    while remainder > 0:
        given = remainder
        for node in best.remainder:
            if remainder and len(taking.free.in_nodes(node)) >= wanted.group:
                _take_of(taking, node, wanted.group, spread=spread)
                remainder -= wanted.group
        if given == remainder:
            break  # the kubelet never leaves this loop
    if taking.needed > 0:
        raise CpusError(f"accounting error, not enough CPUs allocated, remaining: {taking.needed}")
    if taking.needed < 0:
        raise CpusError(f"accounting error, too many CPUs allocated, remaining: {taking.needed}")
    return taking.taken


def _take_of(taking: Accumulator, node: int, count: int, *, spread: bool) -> None:
    """Take CPUs of one NUMA node; none if it has too few, which the kubelet finds by its accounting."""
    try:
        taking.take(take_packed(taking.topology, taking.free.in_nodes(node), count, spread=spread))
    except CpusError:
        return


class _Subset(Sequence[int]):
    """The first items of a memory that others may overwrite."""

    def __init__(self, memory: list[int], size: int) -> None:
        self._memory = memory
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        return self._memory[: self._size][at]


def combinations(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield subsets as the kubelet's iterateCombinations does, which lets later ones overwrite earlier ones.

    It appends to Go slices that share their memory as long as their capacity (1, 2, 4, 8, …) lasts, and keeps the best
    subset without a copy. So the last item of a kept subset of four is that of the last subset with the same first three.
    """

    def chosen(start: int, memory: list[int], length: int) -> Iterator[Sequence[int]]:
        if length == size:
            yield _Subset(memory, size)
            return
        for at in range(start, len(items) - (size - length) + 1):
            yield from chosen(at + 1, _appended(memory, length, items[at]), length + 1)

    return chosen(0, [], 0)


def _appended(memory: list[int], length: int, item: int) -> list[int]:
    """Append in place while there is capacity, or else to a copy of twice the capacity."""
    if length == len(memory):
        memory = memory + [0] * max(length, 1)
    memory[length] = item
    return memory


def _deviation(counts: Iterable[int]) -> float:
    """Return the standard deviation, rounded to three decimals as its mean is."""
    some = list(counts)
    mean = _rounded(sum(some) / len(some))
    return _rounded(math.sqrt(sum((one - mean) * (one - mean) for one in some) / len(some)))


def _rounded(number: float) -> float:
    """Round half up, as Go's math.Round does with a number that is not negative."""
    whole = math.floor(number * 1000)
    return (whole + (number * 1000 - whole >= 0.5)) / 1000
