"""Which of the available devices lie in the NUMA nodes that the topology manager chose (filterByAffinity)."""

from dataclasses import dataclass
from typing import Final

from workflows.decide.devices.inventory import WITHOUT_TOPOLOGY, Listed

NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ByAffinity:
    """Available devices; each is in one of these sets."""

    aligned: frozenset[str] = NOTHING
    unaligned: frozenset[str] = NOTHING
    without: frozenset[str] = NOTHING
    """They are near to no node, or nobody asks."""


def by_affinity(listed: Listed, available: frozenset[str], wanted: tuple[int, ...] | None) -> ByAffinity:
    """Sort available devices; `wanted` are the nodes of the merged hint, None: any.

    A device that is near to several nodes belongs to the first of them in the kubelet's order: wanted nodes come before
    others, and nodes with fewer devices before those with more. Which of these it is changes no set.
    """
    if not listed.is_aligned or wanted is None:
        return ByAffinity(without=available)
    chosen = frozenset(wanted)
    near = {device: frozenset(listed.near(device)) - {WITHOUT_TOPOLOGY} for device in available}
    aligned = frozenset(device for device, nodes in near.items() if nodes & chosen)
    without = frozenset(device for device, nodes in near.items() if not nodes)
    return ByAffinity(aligned, available - aligned - without, without)
