"""The images in a Node's status: the largest ones, with up to five names each (nodestatus/setters.go Images)."""

from collections.abc import Iterable
from typing import Any, Final

from proto.cri.v1 import api_pb2 as cri

MOST_NAMES: Final = 5


def listed_images(images: Iterable[cri.Image], most: int) -> tuple[dict[str, Any], ...]:
    """Return at most `most` images (-1: all), the largest first, digests before tags."""
    found = sorted(images, key=lambda one: (one.size, one.id), reverse=True)
    if most >= 0:
        found = found[:most]
    return tuple(
        {"names": [*one.repo_digests, *one.repo_tags][:MOST_NAMES], "sizeBytes": int(one.size)} for one in found
    )
