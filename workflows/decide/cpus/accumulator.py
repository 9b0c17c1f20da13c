"""CPUs taken one part of the machine after the other.

The rules are cpuAccumulator's in pkg/kubelet/cm/cpumanager/cpu_assignment.go. The part with the fewest free CPUs comes first,
then the one with the lowest number.
"""

from collections.abc import Callable, Iterable

from workflows.decide.cpus.cpu_sets import NONE, Cpus
from workflows.decide.cpus.topology import Places, Topology


class Accumulator:
    """What is taken, what is free, and how many CPUs are still needed."""

    def __init__(self, topology: Topology, available: Cpus, needed: int, *, spread: bool) -> None:
        self.topology = topology
        self.free = topology.places.only(available)
        self.needed = needed
        self.taken = NONE
        self._spread = spread
        self._nodes_first = topology.sockets >= topology.nodes

    @property
    def is_satisfied(self) -> bool:
        """Whether no CPU is needed any more."""
        return self.needed < 1

    @property
    def has_too_few(self) -> bool:
        """Whether the free ones do not suffice."""
        return self.needed > len(self.free)

    def take(self, cpus: Cpus) -> None:
        """Take CPUs; some that are taken already count again, as they do in the kubelet."""
        self.taken |= cpus
        self.free = self.free.only(self.free.cpus - self.taken)
        self.needed -= len(cpus)

    def take_whole_parts(self) -> None:
        """Take whole NUMA nodes and sockets, the larger kind first."""
        levels = [self._take_nodes, self._take_sockets]
        if not self._nodes_first:
            levels.reverse()
        for take in levels:
            if not self.is_satisfied:
                take()

    def take_caches(self) -> None:
        """Take whole uncore caches, then a part of one that has all that is needed."""
        for cache in self._sorted_caches():
            if self.needed >= self.topology.cpus_per_cache:
                self._take_whole(self._whole_caches(), self.topology.places.in_cache)
            if self.is_satisfied:
                return
            self._take_part_of(cache)
            if self.is_satisfied:
                return

    def take_cores(self) -> None:
        """Take whole cores."""
        whole = [one for one in self._sorted_cores() if len(self.free.in_cores(one)) == self.topology.cpus_per_core]
        self._take_whole(whole, self.topology.places.in_cores)

    def take_single_cpus(self) -> None:
        """Take CPUs one by one, those of cores in use first unless they are to be spread."""
        for cpu in self._spread_cpus() if self._spread else self._packed_cpus():
            self.take(frozenset({cpu}))
            if self.is_satisfied:
                return

    def sorted_nodes(self) -> list[int]:
        """List the NUMA nodes with free CPUs; where sockets are the larger parts, by sockets."""
        if self._nodes_first:
            return _sorted(self.free.nodes, self.free.in_nodes)
        return [
            node
            for socket in self._sorted_sockets()
            for node in _sorted(self.free.nodes_of_socket(socket), self.free.in_nodes)
        ]

    def _sorted_sockets(self) -> list[int]:
        if not self._nodes_first:
            return _sorted(self.free.sockets, self.free.in_socket)
        return [
            socket
            for node in self.sorted_nodes()
            for socket in _sorted(self.free.sockets_of_nodes(node), self.free.in_socket)
        ]

    def _sorted_caches(self) -> list[int]:
        return [
            cache
            for node in self.sorted_nodes()
            for cache in _sorted(self.free.caches_of_node(node), self.free.in_cache)
        ]

    def _sorted_cores(self) -> list[int]:
        if self._nodes_first:
            cores = [self.free.cores_of_socket(one) for one in self._sorted_sockets()]
        else:
            cores = [self.free.cores_of_node(one) for one in self.sorted_nodes()]
        return [core for some in cores for core in _sorted(some, self.free.in_cores)]

    def _packed_cpus(self) -> list[int]:
        return [cpu for core in self._sorted_cores() for cpu in sorted(self.free.in_cores(core))]

    def _spread_cpus(self) -> list[int]:
        return [cpu for socket in self._sorted_sockets() for cpu in sorted(self.free.in_socket(socket))]

    def _take_nodes(self) -> None:
        every = self.topology.places.in_nodes
        whole = [one for one in self.sorted_nodes() if len(self.free.in_nodes(one)) == len(every(one))]
        self._take_whole(whole, every)

    def _take_sockets(self) -> None:
        size = self.topology.cpus_per_socket
        whole = [one for one in self._sorted_sockets() if len(self.free.in_socket(one)) == size]
        self._take_whole(whole, self.topology.places.in_socket)

    def _whole_caches(self) -> list[int]:
        every = self.topology.places.in_cache
        return [one for one in self._sorted_caches() if len(self.free.in_cache(one)) == len(every(one))]

    def _take_whole(self, parts: Iterable[int], cpus_of: Callable[[int], Cpus]) -> None:
        for part in parts:
            cpus = cpus_of(part)
            if self.needed >= len(cpus):
                self.take(cpus)

    def _take_part_of(self, cache: int) -> None:
        """Take the lowest cores of a cache if they have just as many free CPUs as are needed."""
        per_core = self.topology.cpus_per_core
        cores = sorted(self.free.cores_of_cache(cache))[: (self.needed + per_core - 1) // per_core]
        cpus = sorted(self.free.in_cores(*cores))
        if self.needed % 2 and per_core > 1 and len(cpus) > self.needed:
            cpus.pop()  # the second thread of the last core
        if len(cpus) == self.needed:
            self.take(frozenset(cpus))


def free_in_nodes(free: Places, nodes: Iterable[int]) -> dict[int, int]:
    """Count the free CPUs of NUMA nodes."""
    return {node: len(free.in_nodes(node)) for node in nodes}


def _sorted(parts: Iterable[int], cpus_of: Callable[[int], Cpus]) -> list[int]:
    return sorted(parts, key=lambda part: (len(cpus_of(part)), part))
