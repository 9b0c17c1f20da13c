"""Which NUMA nodes could give a container its devices: the hints for the topology manager.

The rules are pkg/kubelet/cm/devicemanager/topology_hints.go.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from workflows.decide.devices.inventory import Inventory, Listed
from workflows.decide.topology.hints import Hint, Hints

NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a container, or a whole pod, wants of a resource."""

    wanted: int
    has: frozenset[str] = NOTHING
    in_use: frozenset[str] = NOTHING
    reusable: frozenset[str] = NOTHING
    """What init containers leave; none for a whole pod."""


def device_hints(wishes: Mapping[str, Wish], inventory: Inventory, machine: Sequence[int]) -> dict[str, Hints]:
    """Return the hints by resource; `machine` are the NUMA nodes of the machine."""
    return {name: _hints(inventory.get(name, Listed()), wish, machine) for name, wish in wishes.items()}


def _hints(listed: Listed, wish: Wish, machine: Sequence[int]) -> Hints:
    if not listed.is_aligned:
        return None
    if wish.has:
        if len(wish.has) != wish.wanted:
            return ()
        return _generated(listed, Wish(wish.wanted), wish.has, machine)
    available = listed.healthy - wish.in_use
    if len(available | wish.reusable) < wish.wanted:
        return ()
    return _generated(listed, wish, available, machine)


def _generated(listed: Listed, wish: Wish, available: Collection[str], machine: Sequence[int]) -> tuple[Hint, ...]:
    every = sorted({node for nodes in listed.nodes.values() for node in nodes} & set(machine)) or sorted(machine)
    least = len(every)
    of_all = _counted(listed, listed.nodes)
    free, left = _counted(listed, available), _counted(listed, [one for one in wish.reusable if listed.near(one)])
    found: list[tuple[int, ...]] = []
    for size in range(1, len(every) + 1):
        for nodes in combinations(every, size):
            chosen = frozenset(nodes)
            if _inside(of_all, chosen) >= wish.wanted:
                least = min(least, size)
            reused = _inside(left, chosen)
            if reused == sum(left.values()) and reused + _inside(free, chosen) >= wish.wanted:
                found.append(nodes)
    return tuple(Hint(nodes, len(nodes) == least) for nodes in found)


def _counted(listed: Listed, devices: Collection[str]) -> dict[frozenset[int], int]:
    """Count devices by the set of nodes near them: of 100,000 devices there are few such sets."""
    counts: dict[frozenset[int], int] = {}
    for device in devices:
        near = frozenset(listed.near(device))
        counts[near] = counts.get(near, 0) + 1
    return counts


def _inside(counts: Mapping[frozenset[int], int], nodes: frozenset[int]) -> int:
    return sum(number for near, number in counts.items() if near & nodes)
