"""The hints of those that give CPUs, memory and devices: which NUMA nodes could satisfy a container.

The rules are TopologyHint in pkg/kubelet/cm/topologymanager/topology_manager.go and filterProvidersHints in policy.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes that together have enough."""

    nodes: tuple[int, ...] | None
    """In ascending order. None: any."""
    preferred: bool
    """No fewer nodes could have enough, were everything on them free."""


Hints = tuple[Hint, ...] | None
"""Of one resource. None: the container does not care. Empty: it cannot be satisfied."""

ProviderHints = Mapping[str, Hints]
"""Of one provider, by resource. Empty: the container wants nothing from it."""

ANY: Final = Hint(None, preferred=True)
IMPOSSIBLE: Final = Hint(None, preferred=False)


def resource_hints(providers: Iterable[ProviderHints]) -> list[tuple[Hint, ...]]:
    """List what each resource allows; each has at least one hint."""
    found: list[tuple[Hint, ...]] = []
    for provider in providers:
        if not provider:
            found.append((ANY,))
        found += [(ANY,) if hints is None else hints or (IMPOSSIBLE,) for hints in provider.values()]
    return found
