"""Requests and answers of mounting and unmounting a pod's volumes.

They contain no content of a volume, and no credential or token.
"""

from dataclasses import dataclass, field
from typing import Any

from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey


@dataclass(frozen=True, slots=True)
class MountVolumes:
    """Mount the volumes that a pod's containers use; mounted ones are reused."""

    pod: PodKey
    volumes: tuple[PodJson, ...]
    """As in the spec."""
    pod_spec: PodJson
    """What mounting needs of the pod (slices.volumes_slice)."""
    sandbox_attempt: int = 0
    """The sandbox: a new one may come after a reboot, which unmounts everything."""
    asks_recursive_read_only: bool = False
    """A container wants recursiveReadOnly, so the answer is to say whether the runtime supports it."""
    refresh: dict[str, str] | None = None
    """For mounted volumes that must show what has changed: the signalled versions of objects."""
    told: str = ""
    """A digest of what the volumes show of the pod itself (`workflows/decide/contents.py`)."""


@dataclass(frozen=True, slots=True)
class MountedVolumes:
    """The volumes that were asked for, all of them mounted."""

    volumes: tuple[MountedVolume, ...] = ()
    found: tuple[str, ...] = ()
    """The names of those that were mounted already."""
    objects: dict[str, str] = field(default_factory=dict)
    """The versions of the objects that they show, by `<plural>/<name>`."""


@dataclass(frozen=True, slots=True)
class UnmountVolumes:
    """Unmount every volume of a pod, and remove what they kept for its life; a missing one counts as unmounted."""

    pod: PodKey
    volumes: tuple[PodJson, ...] = ()
    """As in MountVolumes."""
    pod_spec: PodJson = field(default_factory=dict[str, Any])
