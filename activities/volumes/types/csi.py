"""CSI volumes: ephemeral ones in a pod's spec (`csi`), and PersistentVolumes (pkg/volume/csi).

The work is done in `activities/volumes/csi/node_volumes.py`, which is imported with the first such volume: CSI's
messages cost memory that a node without drivers does not need.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from activities.files import mounts
from activities.files.pod_paths import path_component, plain_name
from activities.volumes.csi.drivers.driver_object import driver_rules
from activities.volumes.csi.records.block_places import BlockPlace
from activities.volumes.csi.records.places import FilesPlace, Place
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle, ephemeral_volume, persistent_fields
from activities.volumes.plugin.persistent_type import PersistentType, PersistentVolume
from activities.volumes.plugin.selinux import AskedLabel
from activities.volumes.plugin.table import csi_label
from activities.volumes.plugin.volume_type import Mounted, PodVolume, Step, VolumeType, failing_at
from proto.temporal.mounted import MountedVolume

if TYPE_CHECKING:
    from activities.volumes.csi.node_volumes import NodeVolumes


class EphemeralCsi:
    """`csi` volumes in a pod's spec: created by a driver for one pod."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Let the driver publish it."""
        wanted = ephemeral_volume(volume.name, volume.source, volume.pod.namespace, volume.pod.uid)
        return await _mount(volume, wanted, place_of(volume, block=False))

    async def unmount(self, volume: PodVolume) -> None:
        """Let the driver unpublish it."""
        await _unmount(volume, place_of(volume, block=False))


class PersistentCsi:
    """CSI PersistentVolumes: staged once on the node, published to each pod."""

    takes_mount_options = True
    takes_block = True

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Let the driver stage it, unless it is staged, publish it to the pod, and expand it where that is due."""
        place = place_of(volume, block=persistent.block)
        wanted, asked = await _labelled(volume, persistent_csi(persistent), place, persistent.label)
        mounted = await _mount(volume, wanted, place, asked)
        if volume.services.api is not None and persistent.objects is not None:
            with failing_at(Step.EXPAND):
                await _expand(volume, wanted, place, persistent.objects)
        return mounted

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:
        """Let the driver unpublish it, and unstage it after the last pod."""
        await _unmount(volume, place_of(volume, block=block))


def persistent_csi(persistent: PersistentVolume) -> CsiVolume:
    """Read a PersistentVolume of CSI; raises VolumeFailed."""
    return CsiVolume(
        name=persistent.name,
        lifecycle=Lifecycle.PERSISTENT,
        read_only=persistent.read_only,
        block=persistent.block,
        access_modes=persistent.access_modes,
        mount_options=persistent.mount_options,
        **persistent_fields(persistent.name, persistent.source),
    )


async def _labelled(
    volume: PodVolume, wanted: CsiVolume, place: Place, asked: AskedLabel | None
) -> tuple[CsiVolume, AskedLabel | None]:
    """Choose the SELinux label to mount a volume with; returns also what has to be compared with other pods. Raises VolumeFailed.

    A volume that the pod has already keeps the label that it was mounted with, which is recorded.
    """
    if asked is None or wanted.block:
        return wanted, None
    record = await asyncio.to_thread(place.record)
    if record is not None and not record.unpublished:
        return replace(wanted, label=record.label, asked_label=record.asked_label), None
    if not (await driver_rules(volume.services.objects, wanted.driver)).mounts_labels:
        return wanted, None
    return replace(wanted, label=asked.mounted, asked_label=asked.label), asked


async def _expand(
    volume: PodVolume, wanted: CsiVolume, place: Place, objects: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> None:
    """Expand a volume that was just published, as far as its objects say so."""
    from activities.volumes.csi.expansion.expander import ClaimedVolume, Expander  # noqa: PLC0415 - as `_node_volumes`

    persistent, claim = objects
    await Expander(volume.services).expand_mounting(ClaimedVolume(volume.pod, wanted, place, claim, persistent))


async def _mount(volume: PodVolume, wanted: CsiVolume, place: Place, asked: AskedLabel | None = None) -> Mounted:
    published = await _node_volumes(volume).mount(wanted, place, volume.pod_spec, asked)
    labelled = wanted.label or wanted.read_only or wanted.block
    relabelled = not labelled and await asyncio.to_thread(mounts.labels_files, place.target)
    mounted = MountedVolume(
        volume.name,
        str(place.shown),
        read_only=wanted.read_only,
        device=wanted.block,
        selinux_relabel=relabelled,
    )
    return Mounted(mounted, published.found, needs_fs_group=published.needs_fs_group)


async def _unmount(volume: PodVolume, place: Place) -> None:
    """Unmount it, and time that if its driver has been asked for it."""
    record = await asyncio.to_thread(place.record)
    volume.timed.plugin = csi_label(record.driver) if record else ""
    await _node_volumes(volume).unmount(place)


def place_of(volume: PodVolume, *, block: bool) -> Place:
    """Return where a volume of a pod is staged and published; raises InvalidPodName.

    The names of volumes of clouds are made of their ids, which may have any characters.
    """
    root, uid = volume.services.settings.root_dir, plain_name(volume.pod.uid, "pod uid")
    name = path_component(volume.name, "volume name")
    return BlockPlace(root, uid, name) if block else FilesPlace(root, uid, name)


def _node_volumes(volume: PodVolume) -> "NodeVolumes":
    from activities.volumes.csi.node_volumes import NodeVolumes  # noqa: PLC0415 - 3 MB, for whom has such a volume

    return NodeVolumes(volume.services)


TYPE: Final[VolumeType] = EphemeralCsi()
PERSISTENT: Final[PersistentType] = PersistentCsi()
