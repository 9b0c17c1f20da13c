"""What mounting and unmounting a pod's volumes is asked and answers.

No content of a volume, and nothing by which one is opened (a credential, a token), is in any of these shapes.
"""

from dataclasses import dataclass, field
from typing import Any

from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey


@dataclass(frozen=True, slots=True)
class MountVolumes:
    """Mount all volumes of a pod; those that are mounted are found."""

    pod: PodKey
    volumes: tuple[PodJson, ...]
    """As the spec has them."""
    pod_spec: PodJson
    """Of the pod what mounting these needs (slices.volumes_slice)."""
    sandbox_attempt: int = 0
    """For which sandbox: a new one may come after the node was down, which unmounts everything."""
    asks_recursive_read_only: bool = False
    """A container wants a mount that is read-only with all below, so whether the runtime can do that is to be answered."""
    refresh: dict[str, str] | None = None
    """Of volumes that are mounted and shall show what is so now: the versions of the objects that were hinted at."""
    told: str = ""
    """A digest of what the volumes tell of the pod itself (decide/contents.py)."""


@dataclass(frozen=True, slots=True)
class MountedVolumes:
    """The pod's volumes, all of them mounted."""

    volumes: tuple[MountedVolume, ...] = ()
    found: tuple[str, ...] = ()
    """The names of those that were there already."""
    objects: dict[str, str] = field(default_factory=dict)
    """The versions of the objects that they show, by `<plural>/<name>`."""


@dataclass(frozen=True, slots=True)
class UnmountVolumes:
    """Undo every mount of a pod, and remove what its volumes kept for its life only; what is gone counts as undone."""

    pod: PodKey
    volumes: tuple[PodJson, ...] = ()
    """As in MountVolumes."""
    pod_spec: PodJson = field(default_factory=dict[str, Any])
