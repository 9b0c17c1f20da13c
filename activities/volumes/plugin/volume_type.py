"""The protocol of volume types, and what they get and return."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from activities.execution.timings import TimedVolume
from activities.files.pod_paths import PodPaths, plain_name
from activities.volumes.plugin.services import VolumeServices
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey


class Step(Enum):
    """At what a volume failed, in the kubelet's words: for files, and for a device (operation_generator.go)."""

    AFFINITY = ("MountVolume.NodeAffinity check failed", "MapVolume.NodeAffinity check failed")
    ATTACH = ("MountVolume.WaitForAttach failed", "MapVolume.WaitForAttach failed")
    DEVICE = ("MountVolume.MountDevice failed", "MapVolume.SetUpDevice failed")
    """What is done once for all pods of the node."""
    SET_UP = ("MountVolume.SetUp failed", "MapVolume.SetUpDevice failed")
    PUBLISH = ("MountVolume.SetUp failed", "MapVolume.MapPodDevice failed")
    EXPAND = (
        "MountVolume.Setup failed while expanding volume",
        "MapVolume.MarkVolumeAsMounted failed while expanding volume",
    )


class VolumeFailed(Exception):
    """A volume cannot be mounted or unmounted now. The message is the kubelet's and never quotes a volume's content."""

    step: Step = Step.SET_UP
    volume: str = ""
    """The PersistentVolume's name, which the kubelet tells instead of the pod's for it; empty: it is none."""


class NotProcessed(VolumeFailed):
    """It is not known yet which volume a claim means."""


class NotAttached(VolumeFailed):
    """A volume is not attached to this node."""

    step = Step.ATTACH


class AttachLimitExceeded(NotAttached):
    """It was not attached in time, because its driver has no place for one more volume on this node."""


def failed_at(step: Step, message: str, volume: str = "") -> VolumeFailed:
    """Return a failure at a step, of a PersistentVolume if it is named."""
    failed = VolumeFailed(message)
    failed.step, failed.volume = step, volume
    return failed


@contextmanager
def failing_at(step: Step) -> Iterator[None]:
    """Let failures of the block say at what the volume failed."""
    try:
        yield
    except NotAttached:
        raise
    except VolumeFailed as failed:
        failed.step = step
        raise
    except OSError as error:
        raise failed_at(step, str(error)) from error


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
    timed: TimedVolume = field(default_factory=TimedVolume, compare=False)
    """What is done with it, which is timed."""

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
