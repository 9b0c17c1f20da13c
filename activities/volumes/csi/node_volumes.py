"""Stages CSI volumes on the node, publishes them to pods, and undoes both.

Used by `activities/volumes/types/csi.py`, which imports this module with the first volume of a driver. Each step may
run repeatedly, late or after a crash: CSI's calls are idempotent, the records on disk (`places`) say what there is to
undo, and only one pod at a time works on a volume. After a call that failed for good its record is removed; a call
whose end is unknown is undone later (csi_mounter.go, csi_attacher.go).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from activities.clients.csi_driver import CsiError, CsiNode, connected
from activities.clients.csi_drivers import Driver, DriverNotRegistered
from activities.execution.heartbeat import waiting_until
from activities.files import mounts
from activities.volumes.csi.drivers.attachment import wait_attached
from activities.volumes.csi.drivers.driver_object import DriverRules, check_rules, driver_rules, pod_attributes
from activities.volumes.csi.drivers.pod_tokens import pod_tokens
from activities.volumes.csi.drivers.registered import registered
from activities.volumes.csi.drivers.requests import STAGES, VolumeRequest, publish_request, stage_request
from activities.volumes.csi.drivers.secrets import read_secret
from activities.volumes.csi.records.block_places import BlockPlace
from activities.volumes.csi.records.layout import unique_name
from activities.volumes.csi.records.places import PLUGIN, Place, VolumeRecord
from activities.volumes.csi.records.republishing import Republished, record_republished
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle, lock_of
from activities.volumes.plugin.attaching import wait_reported
from activities.volumes.plugin.ownership import apply_fs_group, fs_group_of
from activities.volumes.plugin.selinux import AskedLabel, LabelledVolume, LabelUser, check_label
from activities.volumes.plugin.services import VolumeServices
from activities.volumes.plugin.volume_type import Step, VolumeFailed, failed_at, failing_at

_IN_USE = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"


@dataclass(frozen=True, slots=True)
class Published:
    """A volume that is published to a pod."""

    needs_fs_group: bool
    """The driver has not applied the pod's fsGroup, so the node has to."""
    found: bool
    """This process had published it before."""


@dataclass(frozen=True, slots=True)
class _Mounting:
    """One volume that is being mounted for a pod."""

    asking: VolumeRequest
    place: Place
    rules: DriverRules
    pod: Mapping[str, Any]
    asked: AskedLabel | None = None
    again: bool = False
    """The pod has it: a failure undoes nothing (csi_mounter.go IsRemount)."""

    @property
    def key(self) -> tuple[str, str]:
        """The volume's identity on this node."""
        return self.asking.volume.driver, self.asking.volume.handle

    @property
    def attachable(self) -> bool:
        """It has been attached to the node."""
        return self.rules.needs_attaching(self.asking.volume)

    @property
    def staged(self) -> bool:
        """Its driver stages it before it is published."""
        return self.asking.stages and self.asking.volume.lifecycle is Lifecycle.PERSISTENT

    @property
    def told_staging(self) -> str:
        """The staging path in the request to publish: a device's also where its driver stages nothing (csi_block.go)."""
        return str(self.place.staging(*self.key)) if self.staged or self.asking.volume.block else ""


class NodeVolumes:
    """The CSI volumes of this node."""

    def __init__(self, services: VolumeServices) -> None:
        self._services = services
        self._drivers = services.csi

    async def mount(
        self, volume: CsiVolume, place: Place, pod: Mapping[str, Any], asked: AskedLabel | None = None
    ) -> Published:
        """Stage and publish a volume unless that is done. Raises VolumeFailed and OSError, which contain no secret.

        With `asked`, no other pod may have it with another SELinux label.
        """
        rules = await driver_rules(self._services.objects, volume.driver)
        check_rules(rules, volume, standalone=self._services.api is None)
        context = await self._attached(rules, volume, place)
        async with self._connected(await registered(self._drivers, volume, place)) as node:
            async with self._services.locks.hold(volume.lock):
                mounting = _Mounting(await _asking(node, volume, pod, context), place, rules, pod, asked)
                found = await self._stage_and_publish(node, mounting)
            by_us = rules.needs_fs_group(volume) and not mounting.asking.driver_applies_group
            return Published(by_us, found)

    async def publish_again(self, one: Republished) -> None:
        """Publish a mounted volume again if its driver still asks for that. Raises VolumeFailed, at the kubelet's step.

        A device, too: a kubelet publishes without staging then (MapPodDevice). The pod's fsGroup gets what is new.
        """
        with failing_at(Step.PUBLISH):
            volume, place = one.volume, one.place
            rules = await driver_rules(self._services.objects, volume.driver)
            if not rules.republish or await asyncio.to_thread(place.record) is None:
                return
            context = await self._attached(rules, volume, place)
            driver = await registered(self._drivers, volume, place, again=True)
            async with self._connected(driver) as node, self._services.locks.hold(volume.lock):
                if await asyncio.to_thread(place.record) is None:
                    return  # its pod has been removed meanwhile
                asking = await _asking(node, volume, one.pod, context)
                await self._publish(node, _Mounting(asking, place, rules, one.pod, again=True))
                group = fs_group_of(one.pod)
                if group and rules.needs_fs_group(volume) and not asking.driver_applies_group:
                    await asyncio.to_thread(apply_fs_group, place.target, group)

    async def unmount(self, place: Place) -> None:
        """Unpublish a volume from a pod, and unstage it after the last pod; a missing one counts as unmounted.

        Raises VolumeFailed and OSError.
        """
        self._drivers.wanted.discard(str(place.target))
        record = await asyncio.to_thread(place.record)
        if record is None:
            await asyncio.to_thread(place.forget)  # an earlier try may have died while it removed the record
            return
        async with (
            self.driver(record.driver, "Unmounter.TearDownAt failed to get CSI client") as node,
            self._services.locks.hold(lock_of(record.driver, record.handle)),
        ):
            self._drivers.published.discard(str(place.target))
            if not record.unpublished:
                try:
                    with waiting_until(
                        f"CSI driver {record.driver} has unpublished {record.handle} (NodeUnpublishVolume)"
                    ):
                        await node.unpublish(record.handle, str(place.target))
                except CsiError as error:
                    raise VolumeFailed(f"kubernetes.io/csi: Unmounter.TearDownAt failed: {error}") from None
            if record.lifecycle != Lifecycle.EPHEMERAL:
                await self._unstage_unless_used(node, place, record)
            await asyncio.to_thread(place.forget)

    async def _attached(self, rules: DriverRules, volume: CsiVolume, place: Place) -> dict[str, str]:
        """Wait until a volume is attached and return the publish context; empty if it needs no attaching.

        Raises VolumeFailed.
        """
        if not rules.needs_attaching(volume):
            return {}
        settings, record = self._services.settings, await asyncio.to_thread(place.record)
        if record is not None and not record.attachable:  # its driver's object has changed since
            async with self._services.locks.hold(volume.lock):
                await asyncio.to_thread(place.remember_attachable)
        if (
            record is None or record.unpublished or not record.attachable
        ):  # else it was listed when it was mounted, and is
            name, shown = unique_name(volume.driver, volume.handle), f"kubernetes.io/csi: volume {volume.handle}"
            self._drivers.wanted.add(str(place.target), name)
            await wait_reported(settings.root_dir, name, settings.node_name, shown=shown)
        no_place = partial(self._drivers.exhausted.set, volume.driver) if rules.counts_places else None
        return await wait_attached(self._services.objects, volume, settings.node_name, no_place)

    @asynccontextmanager
    async def driver(self, name: str, doing: str) -> AsyncIterator[CsiNode]:
        """Connect to a driver; raises VolumeFailed if it is not registered."""
        try:
            driver = await self._drivers.get(name)
        except DriverNotRegistered as missing:
            raise VolumeFailed(f"kubernetes.io/csi: {doing}: {missing}") from None
        async with self._connected(driver) as node:
            yield node

    def _connected(self, driver: Driver) -> AbstractAsyncContextManager[CsiNode]:
        return connected(driver.endpoint, partial(self._services.timings.csi, driver.name))

    async def _stage_and_publish(self, node: CsiNode, mounting: _Mounting) -> bool:
        """Stage and publish a volume; returns whether the pod had it already."""
        volume, place = mounting.asking.volume, mounting.place
        known = str(place.target) in self._drivers.published and not mounting.rules.republish
        if known and await asyncio.to_thread(mounts.is_mount_point, place.target):
            return True
        if mounting.asked is not None:
            await self._check_label(mounting, mounting.asked)
        if volume.access_mode == "ReadWriteOncePod" and await asyncio.to_thread(place.used_by_others, *mounting.key):
            raise VolumeFailed(_IN_USE)
        mounting = replace(mounting, again=await asyncio.to_thread(place.republished.exists))
        node_name = self._services.settings.node_name
        await asyncio.to_thread(partial(place.remember, volume, node_name, attachable=mounting.attachable))
        if mounting.staged:
            await self._stage(node, mounting)
        await self._publish(node, mounting)
        self._drivers.published.add(str(place.target))
        if mounting.rules.republish:
            await asyncio.to_thread(record_republished, place, volume, mounting.pod)
        return False

    async def _check_label(self, mounting: _Mounting, asked: AskedLabel) -> None:
        """Refuse a volume that another pod has with another SELinux label; raises VolumeFailed."""
        labels = await asyncio.to_thread(mounting.place.labels_of_others, *mounting.key)
        users = [LabelUser(label, self._services.terminating.has(uid)) for uid, label in labels.items()]
        driver, _ = mounting.key
        named = LabelledVolume(mounting.asking.volume.name, unique_name(*mounting.key), f"{PLUGIN}/{driver}")
        check_label(named, asked, users, self._services.timings.labelled)

    async def _stage(self, node: CsiNode, mounting: _Mounting) -> None:
        """Stage the volume, unless it is."""
        place, key, volume = mounting.place, mounting.key, mounting.asking.volume
        if key in self._drivers.staged and await asyncio.to_thread(place.staging(*key).is_dir):
            return
        secrets = await read_secret(self._services.objects, volume.stage_secret, "NodeStageSecretRef")
        staging = str(await asyncio.to_thread(place.record_staging, *key))
        try:
            with waiting_until(f"CSI driver {volume.driver} has staged volume {volume.name} (NodeStageVolume)"):
                await node.stage(stage_request(mounting.asking, staging, secrets))
        except CsiError as error:
            if error.is_final:
                await asyncio.to_thread(_forget_unstaged, place, key)
            raise failed_at(Step.DEVICE, str(error)) from None
        self._drivers.staged.add(key)

    async def _publish(self, node: CsiNode, mounting: _Mounting) -> None:
        """Publish the volume to the pod."""
        volume, place = mounting.asking.volume, mounting.place
        secrets = await read_secret(self._services.objects, volume.publish_secret, "NodePublishSecretRef")
        rules = mounting.rules
        about_pod = pod_attributes(mounting.pod, volume.lifecycle) if rules.pod_info else {}
        # a kubelet gives none to the driver of a device (csi_block.go publishVolumeForBlock)
        tokens = {} if volume.block else await pod_tokens(self._services.tokens, rules, mounting.pod)
        about_pod, secrets = (about_pod, secrets | tokens) if rules.tokens_in_secrets else (about_pod | tokens, secrets)
        places = (mounting.told_staging, str(place.target))
        try:
            with waiting_until(f"CSI driver {volume.driver} has published volume {volume.name} (NodePublishVolume)"):
                await node.publish(publish_request(mounting.asking, places, about_pod, secrets))
        except CsiError as error:
            if error.is_final and not mounting.again:
                await asyncio.to_thread(self._forget_unpublished, mounting)
            raise failed_at(Step.PUBLISH, str(error)) from None
        if not await asyncio.to_thread(place.target.exists):
            raise VolumeFailed(f"its driver says that it is published, and there is nothing at {place.target}")

    def _forget_unpublished(self, mounting: _Mounting) -> None:
        """Record that there is nothing to unpublish, unless an earlier call has published the volume."""
        place = mounting.place
        if mounts.is_mount_point(place.target):
            return
        with contextlib.suppress(OSError):
            place.target.rmdir()
        node_name = self._services.settings.node_name
        place.remember(mounting.asking.volume, node_name, attachable=mounting.attachable, unpublished=True)

    async def _unstage_unless_used(self, node: CsiNode, place: Place, record: VolumeRecord) -> None:
        """Unstage a volume that no other pod uses."""
        key = (record.driver, record.handle)
        staging = place.staging(*key)
        used = await asyncio.to_thread(place.used_by_others, *key)
        if used or not await asyncio.to_thread(staging.exists):
            return
        self._drivers.staged.discard(key)
        self._drivers.sizes.forget(key)
        try:
            stages = STAGES in await node.capabilities()
            if stages:
                await node.unstage(record.handle, str(staging))
        except CsiError as error:
            raise VolumeFailed(f"kubernetes.io/csi: attacher.UnmountDevice failed: {error}") from None
        # a driver that stages nothing is told the path of a device, and what it may leave there holds up no pod
        may_stay = not stages and isinstance(place, BlockPlace)
        with contextlib.suppress(*((OSError,) if may_stay else ())):
            await asyncio.to_thread(place.remove_staging_record, *key)


async def _asking(
    node: CsiNode, volume: CsiVolume, pod: Mapping[str, Any], context: Mapping[str, str]
) -> VolumeRequest:
    """Collect what the driver has to know about a volume; raises VolumeFailed."""
    try:
        able = await node.capabilities()
    except CsiError as error:
        raise VolumeFailed(f"NodeGetCapabilities: {error}") from None
    wanted = fs_group_of(pod)
    return VolumeRequest(volume=volume, able=able, fs_group=wanted.group if wanted else None, publish_context=context)


def _forget_unstaged(place: Place, key: tuple[str, str]) -> None:
    """Remove the record of a volume that its driver refused for good, unless something of it is mounted."""
    if place.used_by_others(*key) or mounts.is_mount_point(place.staging(*key)) or mounts.is_mount_point(place.target):
        return
    with contextlib.suppress(OSError):  # what the driver has left there is handled when the pod is removed
        place.remove_staging_record(*key)
        place.forget()
