"""What the topology manager makes of all hints: the NUMA nodes to take from, and whether the pod may start.

The rules are pkg/kubelet/cm/topologymanager/policy*.go. The kubelet tries every combination of hints, one of each
resource. Here combinations that come to the same are tried once, because the best of them does not depend on their
order: eight NUMA nodes and three resources have 16 million combinations, but few hundred results.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from workflows.decide.topology.hints import Hint, ProviderHints, resource_hints
from workflows.decide.topology.numa_nodes import NumaNodes, mask_of, nodes_of
from workflows.decide.topology.options import DEFAULTS, Options

NONE: Final = "none"
BEST_EFFORT: Final = "best-effort"
RESTRICTED: Final = "restricted"
SINGLE_NODE: Final = "single-numa-node"
POLICIES: Final = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NODE)


@dataclass(frozen=True, slots=True)
class Merged:
    """The answer of a policy."""

    hint: Hint
    is_admitted: bool


class _Combined(NamedTuple):
    """What some combinations of hints come to."""

    mask: int
    """The nodes that all of them name."""
    preferred: bool
    """All of them are preferred and name the same nodes."""
    named: int | None = None
    """These nodes, while they are preferred; None if they name none."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One of the four policies on one machine."""

    name: str
    machine: NumaNodes
    options: Options = DEFAULTS

    @property
    def guarantees_alignment(self) -> bool:
        """Whether an admitted container's resources come from one NUMA node."""
        return self.name == SINGLE_NODE

    def merge(self, providers: Iterable[ProviderHints]) -> Merged:
        """Merge the hints of all providers."""
        if self.name == NONE:
            return Merged(Hint(None, preferred=False), is_admitted=True)
        resources = resource_hints(providers)
        if self.name == SINGLE_NODE:
            resources = [tuple(one for one in hints if _is_of_one_node(one)) for hints in resources]
        best = self._best(resources)
        nodes: tuple[int, ...] | None = nodes_of(best.mask)
        if self.name == SINGLE_NODE and best.mask == self.machine.mask:
            nodes = None
        return Merged(Hint(nodes, best.preferred), best.preferred or self.name == BEST_EFFORT)

    def _best(self, resources: Sequence[Sequence[Hint]]) -> _Combined:
        least = _most_of_least(resources)
        fit = self.machine.closest if self.options.closest and self.name != SINGLE_NODE else self.machine.narrowest

        def order(one: _Combined) -> tuple[int, int, tuple[int, float, int]]:
            """Sort preferred ones first, then as many nodes as one resource needs, fewer than that, and more."""
            count = one.mask.bit_count()
            if one.preferred or count == least:
                return 0 if one.preferred else 1, 0, fit(one.mask)
            return (2, -count, fit(one.mask)) if count < least else (3, count, fit(one.mask))

        combined = (one for one in _combinations(self.machine.mask, resources) if one.mask)
        return min(combined, key=order, default=_Combined(self.machine.mask, preferred=False))


def _combinations(every: int, resources: Sequence[Sequence[Hint]]) -> set[_Combined]:
    found = {_Combined(every, preferred=True)}
    for hints in resources:
        named = {(None if one.nodes is None else mask_of(one.nodes), one.preferred) for one in hints}
        found = {_with(one, mask, preferred=preferred) for one in found for mask, preferred in named}
    return found


def _with(one: _Combined, mask: int | None, *, preferred: bool) -> _Combined:
    preferred = preferred and one.preferred
    if mask is None:
        return _Combined(one.mask, preferred, one.named if preferred else None)
    if not preferred or one.named not in {None, mask}:
        return _Combined(one.mask & mask, preferred=False)
    return _Combined(one.mask & mask, preferred=True, named=mask)


def _most_of_least(resources: Sequence[Sequence[Hint]]) -> int:
    """Return how many nodes the resource needs that needs most."""
    counts = ([len(one.nodes) for one in hints if one.nodes is not None] for hints in resources)
    return max((min(some) for some in counts if some), default=0)


def _is_of_one_node(hint: Hint) -> bool:
    return hint.preferred and (hint.nodes is None or len(hint.nodes) == 1)
