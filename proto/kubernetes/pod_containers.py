"""The containers of a pod's spec, of every kind, and which volumes they use."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

KINDS: Final = ("initContainers", "containers", "ephemeralContainers")
"""The fields that hold them, in starting order."""


def every_container(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all of them in that order."""
    for kind in KINDS:
        yield from spec.get(kind) or ()


def used_volumes(spec: Mapping[str, Any]) -> frozenset[str]:
    """Name the volumes that a container mounts or has as a device; variables from files do not count (pkg/volume/util GetPodVolumeNames)."""
    return frozenset(
        one["name"]
        for container in every_container(spec)
        for field in ("volumeMounts", "volumeDevices")
        for one in container.get(field) or ()
    )
