"""What a type of volume is: the protocol that each file of this folder keeps, and what it is told of a volume."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from activities.files.pod_paths import PodPaths, plain_name
from activities.volumes.plugin.services import VolumeServices
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey


class VolumeFailed(Exception):
    """A volume can't be mounted or unmounted now; the message is the kubelet's, and never holds what is in a volume."""


@dataclass(frozen=True, slots=True)
class PodVolume:
    """One volume of a pod: what is asked, and where it belongs."""

    pod: PodKey
    name: str
    source: Mapping[str, Any]
    """The part of the spec that is the type's own."""
    pod_spec: PodJson
    """The pod, as slices.volumes_slice has cut it."""
    services: VolumeServices

    @property
    def paths(self) -> PodPaths:
        """Where the pod's files lie."""
        return self.services.paths(self.pod)

    def directory(self, plugin: str) -> Path:
        """Say where this volume's files lie, `pods/<uid>/volumes/<plugin>/<name>`; raises InvalidPodName."""
        return self.paths.volumes(plugin) / plain_name(self.name, "volume name")


@dataclass(frozen=True, slots=True)
class Mounted:
    """A volume that is mounted, and what mounting it found."""

    volume: MountedVolume
    found: bool = False
    """It was there already."""
    objects: Mapping[str, str] = field(default_factory=dict)
    """The versions of the objects that it shows, by `<plural>/<name>`."""
    takes_fs_group: bool = False
    """Its files are to become the pod's fsGroup's (`ownership`), which its type has not seen to itself."""


class VolumeType(Protocol):
    """One type of volume. Both verbs may come twice, late and halfway, and never two at a time for one pod."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Find the volume or make it; raises VolumeFailed and OSError. Files are touched in threads."""
        ...

    async def unmount(self, volume: PodVolume) -> None:
        """Undo what mounting did, what is gone is undone; raises VolumeFailed, StillMounted and OSError."""
        ...
