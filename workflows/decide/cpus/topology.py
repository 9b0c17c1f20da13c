"""Where the CPUs of a machine are: sockets, NUMA nodes, uncore caches, cores, threads.

The rules are pkg/kubelet/cm/cpumanager/topology/topology.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from workflows.decide.cpus.cpu_sets import Cpus


class TopologyError(ValueError):
    """A machine's topology is of no use; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one CPU is."""

    node: int
    """Its NUMA node."""
    socket: int
    core: int
    """The lowest CPU of its core, because the machine's own numbers of cores repeat in each socket."""
    cache: int
    """Its uncore cache (L3)."""


@dataclass(frozen=True, slots=True)
class Core:
    """One core as the machine tells it."""

    threads: tuple[int, ...]
    socket: int
    caches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """Some CPUs of a machine with their places."""

    by_cpu: Mapping[int, Place]

    def __len__(self) -> int:
        """Count the CPUs."""
        return len(self.by_cpu)

    @property
    def cpus(self) -> Cpus:
        """All of them."""
        return frozenset(self.by_cpu)

    @property
    def nodes(self) -> Cpus:
        """Their NUMA nodes."""
        return frozenset(one.node for one in self.by_cpu.values())

    @property
    def sockets(self) -> Cpus:
        """Their sockets."""
        return frozenset(one.socket for one in self.by_cpu.values())

    @property
    def caches(self) -> Cpus:
        """Their uncore caches."""
        return frozenset(one.cache for one in self.by_cpu.values())

    def only(self, cpus: Cpus) -> "Places":
        """Leave out all others."""
        return Places({cpu: place for cpu, place in self.by_cpu.items() if cpu in cpus})

    def in_nodes(self, *nodes: int) -> Cpus:
        """Return the CPUs of NUMA nodes."""
        return frozenset(cpu for cpu, one in self.by_cpu.items() if one.node in nodes)

    def in_socket(self, *sockets: int) -> Cpus:
        """Return the CPUs of sockets."""
        return frozenset(cpu for cpu, one in self.by_cpu.items() if one.socket in sockets)

    def in_cores(self, *cores: int) -> Cpus:
        """Return the CPUs of cores."""
        return frozenset(cpu for cpu, one in self.by_cpu.items() if one.core in cores)

    def in_cache(self, *caches: int) -> Cpus:
        """Return the CPUs of uncore caches."""
        return frozenset(cpu for cpu, one in self.by_cpu.items() if one.cache in caches)

    def sockets_of_nodes(self, *nodes: int) -> Cpus:
        """Return the sockets of NUMA nodes."""
        return frozenset(one.socket for one in self.by_cpu.values() if one.node in nodes)

    def nodes_of_socket(self, socket: int) -> Cpus:
        """Return the NUMA nodes of a socket."""
        return frozenset(one.node for one in self.by_cpu.values() if one.socket == socket)

    def caches_of_node(self, node: int) -> Cpus:
        """Return the uncore caches of a NUMA node."""
        return frozenset(one.cache for one in self.by_cpu.values() if one.node == node)

    def cores_of_socket(self, socket: int) -> Cpus:
        """Return the cores of a socket."""
        return frozenset(one.core for one in self.by_cpu.values() if one.socket == socket)

    def cores_of_node(self, node: int) -> Cpus:
        """Return the cores of a NUMA node."""
        return frozenset(one.core for one in self.by_cpu.values() if one.node == node)

    def cores_of_cache(self, cache: int) -> Cpus:
        """Return the cores of an uncore cache."""
        return frozenset(one.core for one in self.by_cpu.values() if one.cache == cache)


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine; the counts are the machine's own, which count CPUs that are offline as the kubelet's source does."""

    places: Places
    cpus: int
    cores: int
    sockets: int
    nodes: int
    caches: int

    @classmethod
    def discover(cls, nodes: Mapping[int, Sequence[Core]], *, cpus: int, sockets: int) -> Self:
        """Make it of the cores of each NUMA node; raises TopologyError."""
        if not cpus:
            raise TopologyError("could not detect number of cpus")
        found: dict[int, Place] = {}
        for node, cores in nodes.items():
            for core in cores:
                first = _first(core.threads)
                cache = core.caches[0] if core.caches else core.socket
                found.update({cpu: Place(node, core.socket, first, cache) for cpu in core.threads})
        places = Places(found)
        caches = len({one.cache for one in found.values()})
        return cls(places, cpus, sum(map(len, nodes.values())), sockets, len(places.nodes), caches)

    @property
    def cpus_per_core(self) -> int:
        """How many threads a core has."""
        return self.cpus // self.cores if self.cores else 0

    @property
    def cpus_per_socket(self) -> int:
        """How many CPUs a socket has."""
        return self.cpus // self.sockets if self.sockets else 0

    @property
    def cpus_per_cache(self) -> int:
        """How many CPUs share an uncore cache."""
        return self.cpus // self.caches if self.caches else 0

    def is_within_one_cache(self, cpus: Iterable[int]) -> bool:
        """Say whether CPUs share one uncore cache; one alone does."""
        some = list(cpus)
        caches = {place.cache if (place := self.places.by_cpu.get(cpu)) else None for cpu in some}
        return len(some) < 2 or (len(caches) == 1 and None not in caches)


def _first(threads: Sequence[int]) -> int:
    if not threads:
        raise TopologyError("no cpus provided")
    if len(set(threads)) != len(threads):
        raise TopologyError("cpus provided are not unique")
    return min(threads)
