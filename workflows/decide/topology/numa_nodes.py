"""The NUMA nodes of a machine, and which of two sets of them fits better.

The rules are pkg/kubelet/cm/topologymanager/numa_info.go. A set of nodes is a bit mask, because merging hints is
bitwise AND and the lower mask of two is the one with lower nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Fit = tuple[int, float, int]


@dataclass(frozen=True, slots=True)
class NumaNodes:
    """The nodes, and how far they are from each other."""

    nodes: tuple[int, ...]
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """As the firmware tells them: 10 from a node to itself. Needed only to prefer the closest nodes."""

    @property
    def mask(self) -> int:
        """All nodes."""
        return mask_of(self.nodes)

    def narrowest(self, mask: int) -> Fit:
        """Sort fewer nodes first, then lower ones."""
        return mask.bit_count(), 0.0, mask

    def closest(self, mask: int) -> Fit:
        """Sort fewer nodes first, then those that are closer to each other on average."""
        nodes = nodes_of(mask)
        distances = [self.distances[one][other] for one in nodes for other in nodes]
        return len(nodes), sum(distances) / len(distances), mask


def mask_of(nodes: Iterable[int]) -> int:
    """Return the bit mask of nodes."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> tuple[int, ...]:
    """Return the nodes of a bit mask, in ascending order."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)
