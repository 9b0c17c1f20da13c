"""The protocol of volume types, and what they get and return."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from activities.files.pod_paths import PodPaths, plain_name
from activities.volumes.plugin.services import VolumeServices
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey


class VolumeFailed(Exception):
    """A volume cannot be mounted or unmounted now. The message is the kubelet's and never quotes a volume's content."""


class NotProcessed(VolumeFailed):
    """It is not known yet which volume a claim means."""


class NotAttached(VolumeFailed):
    """A volume is not attached to this node."""


class AttachLimitExceeded(NotAttached):
    """It was not attached in time, because its driver has no place for one more volume on this node."""


@dataclass(frozen=True, slots=True)
class PodVolume:
    """One volume of a pod."""

    pod: PodKey
    name: str
    source: Mapping[str, Any]
    """The value of the spec's field that names the type."""
    pod_spec: PodJson
    """The part of the pod that mounting needs (`volumes_slice` of workflows/decide)."""
    services: VolumeServices

    @property
    def paths(self) -> PodPaths:
        """The paths of the pod's files."""
        return self.services.paths(self.pod)

    def directory(self, plugin: str) -> Path:
        """Return this volume's directory, `pods/<uid>/volumes/<plugin>/<name>`; raises InvalidPodName."""
        return self.paths.volumes(plugin) / plain_name(self.name, "volume name")


@dataclass(frozen=True, slots=True)
class Mounted:
    """A mounted volume."""

    volume: MountedVolume
    found: bool = False
    """It was mounted before."""
    objects: Mapping[str, str] = field(default_factory=dict)
    """The versions of the objects that it shows, by `<plural>/<name>`."""
    needs_fs_group: bool = False
    """The pod's fsGroup still has to be applied to its files (`ownership`)."""


class VolumeType(Protocol):
    """A type of volume.

    Both methods may run repeatedly, late or after a crash, but never two at a time for one pod.
    """

    async def mount(self, volume: PodVolume) -> Mounted:
        """Find or create the volume; raises VolumeFailed and OSError. Blocks on files in threads only."""
        ...

    async def unmount(self, volume: PodVolume) -> None:
        """Undo `mount`; what is gone counts as undone. Raises VolumeFailed, StillMounted and OSError."""
        ...
