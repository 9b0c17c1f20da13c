"""A mounted volume, as the workflow remembers it and as starts of containers receive it."""

from dataclasses import dataclass, field
from typing import Final

IMMUTABLE: Final = "="
"""The version of an immutable object begins with this; the object need not be watched."""
UNKNOWN: Final = "?"
"""The version of an object that is wanted and not shown yet."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume that containers may mount."""

    name: str
    path: str = ""
    """Where its files are on the node; for a block device, the device."""
    read_only: bool = False
    """Whatever a container's mount says."""
    device: bool = False
    """It is a block device, not a directory."""
    image: str = ""
    """For a volume of type image: the image as the pod names it."""
    image_ref: str = ""
    """The reference of the image on the node."""
    selinux_relabel: bool = False
    recursive_read_only: bool = False
    """The runtime supports recursive read-only mounts."""
    group_id: int | None = None
    """The group that owns its files; every container of the pod is in it."""


@dataclass(frozen=True, slots=True)
class VolumesFacts:
    """What is known of a pod's volumes; those in `volumes` are mounted."""

    sandbox_attempt: int = 0
    """The sandbox that they were last mounted for."""
    volumes: tuple[MountedVolume, ...] = ()
    objects: dict[str, str] = field(default_factory=dict)
    """The versions of the objects that they show, by `<plural>/<name>`; an immutable one begins with IMMUTABLE."""
    told: str = ""
    """A digest of what they show of the pod itself (`workflows/decide/contents.py`)."""
    knows_recursive_read_only: bool = False
    """The runtime was asked for recursive read-only mounts, which is done only if a container wants one."""
