"""The user and group ids of a node for user namespaces of pods."""

from dataclasses import dataclass
from typing import Final

UNIT: Final = 65536
"""A range has this many ids, or a multiple of it; the ids below belong to the node."""


@dataclass(frozen=True, slots=True)
class IdRanges:
    """The node's ids for pods, the same for users and groups."""

    first: int = UNIT
    count: int = 2**32 - UNIT
    per_pod: int = UNIT
    """KubeletConfiguration userNamespaces.idsPerPod."""
