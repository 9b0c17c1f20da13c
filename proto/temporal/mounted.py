"""A volume that is mounted, as it is remembered of a pod and told to the starts of its containers."""

from dataclasses import dataclass, field
from typing import Final

IMMUTABLE: Final = "="
"""What the version of an object begins with that promised not to change: nobody needs to look at it again."""
UNKNOWN: Final = "?"
"""The version of an object that is wanted and not shown yet."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume that containers may mount."""

    name: str
    path: str = ""
    """Where its files lie on the node; of a block device: the device."""
    read_only: bool = False
    """Whatever a container's mount says."""
    device: bool = False
    """It is a block device, not a directory."""
    image: str = ""
    """Of a volume that shows an image: which, as the pod names it."""
    image_ref: str = ""
    """The same as it is on the node."""
    selinux_relabel: bool = False
    recursive_read_only: bool = False
    """The runtime can make a mount of it read-only with all that is mounted below."""
    group_id: int | None = None
    """Of the group that its files belong to: every container of the pod is in it."""


@dataclass(frozen=True, slots=True)
class VolumesFacts:
    """What is known of a pod's volumes, all of which are mounted."""

    sandbox_attempt: int = 0
    """For which sandbox they were last mounted."""
    volumes: tuple[MountedVolume, ...] = ()
    objects: dict[str, str] = field(default_factory=dict)
    """The versions of the objects that they show, by `<plural>/<name>`; one that is immutable begins with IMMUTABLE."""
    told: str = ""
    """A digest of what they tell of the pod itself (decide/contents.py)."""
    knows_recursive_read_only: bool = False
    """The runtime was asked whether it can mount read-only with all below, which is done only where a container wants it."""
