"""persistentVolumeClaim: looks up the claim's PersistentVolume and mounts it by its type.

The PersistentVolume is recorded in the pod's folder before it is mounted, so that it can be unmounted without the
claim, which may then be gone or bound to another volume.
"""

import asyncio
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_json
from activities.files.pod_paths import CLAIMS, path_component, plain_name
from activities.objects.objects import ObjectRefused
from activities.volumes.claims.claims import ClaimUnusable
from activities.volumes.claims.lookup import find_bound_volume
from activities.volumes.plugin.persistent_type import PersistentType, PersistentVolume
from activities.volumes.plugin.selinux import asked_label
from activities.volumes.plugin.table import persistent_type, plugin_of
from activities.volumes.plugin.volume_type import Mounted, NotProcessed, PodVolume, VolumeFailed, VolumeType
from proto.kubernetes.claims import ephemeral_claim

_MODE: Final = 0o750


@dataclass(frozen=True, slots=True)
class MountedClaim:
    """The PersistentVolume that was mounted for a claim."""

    type: str
    name: str
    """That of its folders."""
    block: bool = False


class PersistentVolumes:
    """persistentVolumeClaim volumes."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Mount the PersistentVolume that the claim is bound to."""
        return await self._mount(volume, str(volume.source["claimName"]))

    async def _mount(self, volume: PodVolume, claim: str, *, own: bool = False) -> Mounted:
        """Mount a claim's volume; with `own`, the claim must have been created for this pod."""
        try:
            persistent = await find_bound_volume(volume, claim, own=own)
        except (ClaimUnusable, ObjectRefused) as error:
            raise NotProcessed(f"error processing PVC {volume.pod.namespace}/{claim}: {error}") from error
        return await mount_persistent(volume, persistent)

    async def unmount(self, volume: PodVolume) -> None:
        """Unmount the recorded PersistentVolume."""
        record = await asyncio.to_thread(_recorded, volume)
        if record is None:
            return
        kind = persistent_type(record.type)
        if kind is None:
            raise VolumeFailed(f"PV {record.name} is made of {record.type}, which this version cannot unmount")
        volume.timed.plugin, volume.timed.is_device = plugin_of(record.type), record.block
        await kind.unmount(_as_persistent(volume, record.name), block=record.block)
        await asyncio.to_thread(_forget, volume)


class GenericEphemeral(PersistentVolumes):
    """ephemeral volumes: claims that the cluster creates for one pod (pkg/controller/volume/ephemeral)."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Mount the volume of the claim that was created for this pod."""
        return await self._mount(volume, ephemeral_claim(volume.pod.name, volume.name), own=True)


async def mount_persistent(volume: PodVolume, persistent: PersistentVolume) -> Mounted:
    """Mount a PersistentVolume for a volume of a pod, after recording it."""
    kind, there = _type_of(persistent), _as_persistent(volume, _folder_of(persistent))
    await asyncio.to_thread(_remember, volume, persistent)
    asked = asked_label(volume, persistent.access_modes)
    try:
        mounted = await kind.mount(there, replace(persistent, label=asked))
    except VolumeFailed as failed:
        failed.volume = persistent.name
        raise
    shown = replace(
        mounted.volume,
        name=volume.name,
        read_only=mounted.volume.read_only or persistent.read_only,
        device=persistent.block,
        group_id=persistent.group_id,
    )
    return replace(mounted, volume=shown)


def _type_of(persistent: PersistentVolume) -> PersistentType:
    kind = persistent_type(persistent.type)
    if kind is None:
        raise VolumeFailed(f"no volume plugin matched: PV {persistent.name} is made of {persistent.type}")
    if persistent.mount_options and not kind.takes_mount_options:
        raise VolumeFailed("mount options are not supported for this volume type")
    if persistent.block and not kind.takes_block:
        raise VolumeFailed(f"PV {persistent.name} has volumeMode Block, and a {persistent.type} volume is no device")
    return kind


def _as_persistent(volume: PodVolume, name: str) -> PodVolume:
    return replace(volume, name=path_component(name, "volume name"), source={})


def _folder_of(persistent: PersistentVolume) -> str:
    """Return the name of its folders (k8s.io/utils strings EscapeQualifiedName)."""
    return persistent.name.replace("/", "~")


def _record_file(volume: PodVolume) -> Path:
    return volume.paths.directory / CLAIMS / plain_name(volume.name, "volume name")


def _recorded(volume: PodVolume) -> MountedClaim | None:
    file = _record_file(volume)
    try:
        return MountedClaim(**json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise OSError(f"{file} is damaged: unmount what its pod has of this volume, then remove it") from error


def _remember(volume: PodVolume, persistent: PersistentVolume) -> None:
    """Record the PersistentVolume; refuse another one than before, which is still mounted."""
    record = MountedClaim(persistent.type, _folder_of(persistent), persistent.block)
    before = _recorded(volume)
    if before == record:
        return
    if before is not None:
        raise VolumeFailed(
            f"PV {before.name} is mounted, and its claim is now bound to PV {record.name}: the pod keeps the first; "
            f"bind the claim to that again, or create the pod again"
        )
    file = _record_file(volume)
    file.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    write_json(file, asdict(record))


def _forget(volume: PodVolume) -> None:
    _record_file(volume).unlink(missing_ok=True)


TYPE: Final[VolumeType] = PersistentVolumes()
EPHEMERAL: Final[VolumeType] = GenericEphemeral()
