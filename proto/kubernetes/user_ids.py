"""The user and group ids of a node that pods may have as their own, as the node's configuration says and activities give them."""

from dataclasses import dataclass
from typing import Final

UNIT: Final = 65536
"""A range is as many ids, or a multiple; ids below one range are the node's own."""


@dataclass(frozen=True, slots=True)
class IdRanges:
    """The node's ids that may be given to pods, the same for users and groups."""

    first: int = UNIT
    count: int = 2**32 - UNIT
    per_pod: int = UNIT
    """KubeletConfiguration userNamespaces.idsPerPod."""
