"""The protocol of types of PersistentVolumes.

The volume that it gets has the PersistentVolume's name, by which the kubelet names its folders; the pod's name for the
volume is restored afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from activities.volumes.plugin.selinux import AskedLabel
from activities.volumes.plugin.volume_type import Mounted, PodVolume


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume:
    """A PersistentVolume that is bound to a claim of the pod."""

    name: str
    type: str
    """The field of its spec that names its type: hostPath, csi …"""
    source: Mapping[str, Any]
    """The value of that field; without an API server it has not been validated."""
    access_modes: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ()
    read_only: bool = False
    """The pod uses its claim read-only."""
    block: bool = False
    """It is a device (volumeMode Block)."""
    group_id: int | None = None
    """Processes that use it must be in this group."""
    label: AskedLabel | None = None
    """The SELinux label that the pod asks for its files; None: nothing is asked."""
    objects: tuple[Mapping[str, Any], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)
    """The PersistentVolume and its claim, as they are stored."""


class PersistentType(Protocol):
    """A type of PersistentVolume.

    Both methods may run repeatedly, late or after a crash, like those of `VolumeType`.
    """

    takes_mount_options: bool
    takes_block: bool
    """It can be a block device."""

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Find or create the volume; raises VolumeFailed and OSError. Blocks on files in threads only."""
        ...

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:
        """Undo `mount`; what is gone counts as undone.

        `source` is empty. Raises VolumeFailed, StillMounted and OSError.
        """
        ...
