"""The containers of a pod's spec, of every kind."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

KINDS: Final = ("initContainers", "containers", "ephemeralContainers")
"""The fields that hold them, in starting order."""


def every_container(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all of them in that order."""
    for kind in KINDS:
        yield from spec.get(kind) or ()
