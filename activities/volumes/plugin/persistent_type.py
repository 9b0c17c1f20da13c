"""What a type of persistent volume is: the protocol of whatever a PersistentVolume can be made of.

One more is a line in `persistent_volumes.PERSISTENT_TYPES`. The volume that it is given bears the PersistentVolume's name, by
which the kubelet names its folders; the pod's own name for it is put back afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from activities.volumes.plugin.volume_type import Mounted, PodVolume


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume:
    """A PersistentVolume that is bound to a claim of the pod."""

    name: str
    type: str
    """The field of its spec that says what it is made of: hostPath, csi …"""
    source: Mapping[str, Any]
    """That field's value. Nobody has validated it where there is no API server."""
    access_modes: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ()
    read_only: bool = False
    """The pod says so of its claim."""
    block: bool = False
    """It is a device (volumeMode Block)."""
    group_id: int | None = None
    """Who uses it must be in this group."""


class PersistentType(Protocol):
    """One type of persistent volume. Both verbs may come twice, late and halfway, as those of `VolumeType`."""

    takes_mount_options: bool
    takes_block: bool
    """Whether it can be a device."""

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Find the volume or make it; raises VolumeFailed and OSError. Files are touched in threads."""
        ...

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:
        """Undo what mounting did, what is gone is undone; `source` is empty. Raises VolumeFailed, StillMounted and OSError."""
        ...
