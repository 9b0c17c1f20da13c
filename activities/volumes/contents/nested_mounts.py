"""Makes mount points inside a read-only volume for other volumes (pkg/volume/util/nested_volumes.go).

The runtime creates mount points as it mounts, but cannot create one in a volume that is mounted read-only.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import normpath
from typing import Any, Final

from activities.volumes.plugin.volume_type import VolumeFailed
from proto.kubernetes.pod_containers import every_container

_MODE: Final = 0o755


def make_nested_mount_points(directory: Path, name: str, pod: Mapping[str, Any]) -> None:
    """Make the folders in the volume `name` on which other volumes are mounted; raises VolumeFailed."""
    for below in nested_mount_points(name, pod):
        path = directory
        for part in below.split("/"):
            path = path / part
            if not path.is_dir():  # a link of the volume's own files may lead there
                path.mkdir(mode=_MODE, exist_ok=True)


def nested_mount_points(name: str, pod: Mapping[str, Any]) -> Iterator[str]:
    """List them relative to the volume; of nested ones only the outermost. Raises VolumeFailed."""
    for container in every_container(pod["spec"]):
        mounts = container.get("volumeMounts") or ()
        everything = sorted({normpath(one["mountPath"]) for one in mounts})
        for own in (normpath(one["mountPath"]) for one in mounts if one["name"] == name):
            if own.startswith(".."):
                raise VolumeFailed(f"invalid container mount point {own}")
            below = own.removesuffix("/")
            yield from _outermost([path for path in everything if path.startswith(f"{below}/") and path != own], below)


def _outermost(paths: list[str], own: str) -> Iterator[str]:
    taken: list[str] = []
    for path in paths:
        if not any(path.startswith(f"{one}/") for one in taken):
            taken.append(path)
            yield path[len(own) + 1 :]
