"""How a CSI volume comes to a pod and goes: staged once on the node, published to each pod, and back.

Asked by `activities/volumes/types/csi.py`, which imports this with the first volume of a driver. Each step may come twice, late and
halfway: CSI promises that its calls may be repeated, what lies on disk says what there is to undo (`places`), and one volume
is dealt with by one pod at a time. A call that failed for good is forgotten, one whose end nobody knows is undone later
(csi_mounter.go, csi_attacher.go).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from activities.clients.csi_driver import CsiError, CsiNode, connected
from activities.clients.csi_drivers import DriverNotRegistered
from activities.files import mounts
from activities.volumes.csi.drivers.attachment import attached
from activities.volumes.csi.drivers.driver_object import DriverRules, check_rules, driver_rules, pod_attributes
from activities.volumes.csi.drivers.pod_tokens import pod_tokens
from activities.volumes.csi.drivers.requests import Asking, publish_request, stage_request
from activities.volumes.csi.drivers.secrets import read_secret
from activities.volumes.csi.records.places import FilesPlace, Place, VolumeRecord
from activities.volumes.csi.records.republishing import Republished, record_republished
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle, lock_of
from activities.volumes.plugin.ownership import fs_group_of
from activities.volumes.plugin.services import VolumeServices
from activities.volumes.plugin.volume_type import VolumeFailed

_IN_USE = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"


@dataclass(frozen=True, slots=True)
class Published:
    """A volume that its pod has."""

    takes_fs_group: bool
    """Its files are to be given to the pod's fsGroup: the driver has not done that."""
    found: bool
    """It was published already, by this process."""


@dataclass(frozen=True, slots=True)
class _Mounting:
    """One volume on its way to a pod."""

    asking: Asking
    place: Place
    rules: DriverRules
    pod: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """The volume's own name on this node."""
        return self.asking.volume.driver, self.asking.volume.handle


class NodeVolumes:
    """The volumes of all drivers on this node."""

    def __init__(self, services: VolumeServices) -> None:
        self._services = services
        self._drivers = services.csi

    async def mount(self, volume: CsiVolume, place: Place, pod: Mapping[str, Any]) -> Published:
        """Stage and publish a volume, as far as that is not done. Raises VolumeFailed and OSError, without any secret."""
        rules = await driver_rules(self._services.objects, volume.driver)
        check_rules(rules, volume, standalone=self._services.api is None)
        context = await self._attached(rules, volume)
        async with self._driver(volume.driver, "mounter.SetUpAt failed to get CSI client") as node:
            async with self._services.locks.hold(volume.lock):
                mounting = _Mounting(await _asking(node, volume, pod, context), place, rules, pod)
                found = await self._stage_and_publish(node, mounting)
            by_us = rules.takes_fs_group(volume) and not mounting.asking.group_is_drivers
            return Published(by_us, found)

    async def publish_again(self, one: Republished) -> None:
        """Publish a volume that its pod has once more, if its driver still asks for that. Raises VolumeFailed and OSError."""
        volume, place = one.volume, one.place
        rules = await driver_rules(self._services.objects, volume.driver)
        if not rules.republish:
            return
        context = await self._attached(rules, volume)
        async with (
            self._driver(volume.driver, "mounter.SetUpAt failed to get CSI client") as node,
            self._services.locks.hold(volume.lock),
        ):
            if await asyncio.to_thread(place.record) is None:
                return  # its pod has gone meanwhile
            asking = await _asking(node, volume, one.pod, context)
            staged = asking.stages and volume.lifecycle is Lifecycle.PERSISTENT
            staging = str(place.staging(volume.driver, volume.handle)) if staged else ""
            await self._publish(node, _Mounting(asking, place, rules, one.pod), staging)

    async def unmount(self, place: Place) -> None:
        """Take a volume out of a pod, and off the node with the last pod; one that is not there is gone.

        Raises VolumeFailed and OSError.
        """
        record = await asyncio.to_thread(place.record)
        if record is None:
            await asyncio.to_thread(place.forget)  # who forgot it may have died in the middle
            return
        async with (
            self._driver(record.driver, "Unmounter.TearDownAt failed to get CSI client") as node,
            self._services.locks.hold(lock_of(record.driver, record.handle)),
        ):
            self._drivers.published.discard(str(place.target))
            if not record.unpublished:
                try:
                    await node.unpublish(record.handle, str(place.target))
                except CsiError as error:
                    raise VolumeFailed(f"kubernetes.io/csi: Unmounter.TearDownAt failed: {error}") from None
            if record.lifecycle != Lifecycle.EPHEMERAL:
                await self._unstage_unless_used(node, place, record)
            await asyncio.to_thread(place.forget)

    async def _attached(self, rules: DriverRules, volume: CsiVolume) -> dict[str, str]:
        """Wait until a volume is attached, and give what that answered; nothing where nobody has to. Raises VolumeFailed."""
        if not rules.needs_attaching(volume):
            return {}
        return await attached(self._services.objects, volume, self._services.settings.node_name)

    @asynccontextmanager
    async def _driver(self, name: str, doing: str) -> AsyncIterator[CsiNode]:
        try:
            driver = await self._drivers.get(name)
        except DriverNotRegistered as missing:
            raise VolumeFailed(f"kubernetes.io/csi: {doing}: {missing}") from None
        async with connected(driver.endpoint) as node:
            yield node

    async def _stage_and_publish(self, node: CsiNode, mounting: _Mounting) -> bool:
        """Do both; answers whether the pod had the volume already."""
        volume, place = mounting.asking.volume, mounting.place
        known = str(place.target) in self._drivers.published and not mounting.rules.republish
        if known and await asyncio.to_thread(mounts.is_mount_point, place.target):
            return True
        if volume.access_mode == "ReadWriteOncePod" and await asyncio.to_thread(place.used_by_others, *mounting.key):
            raise VolumeFailed(_IN_USE)
        await asyncio.to_thread(place.remember, volume, self._services.settings.node_name)
        staging = ""
        if mounting.asking.stages and volume.lifecycle is Lifecycle.PERSISTENT:
            staging = await self._stage(node, mounting)
        await self._publish(node, mounting, staging)
        self._drivers.published.add(str(place.target))
        if mounting.rules.republish and isinstance(place, FilesPlace):
            await asyncio.to_thread(record_republished, place, volume, mounting.pod)
        return False

    async def _stage(self, node: CsiNode, mounting: _Mounting) -> str:
        """Bring the volume onto the node; answers where it is then."""
        place, key, volume = mounting.place, mounting.key, mounting.asking.volume
        if key in self._drivers.staged and await asyncio.to_thread(place.staging(*key).is_dir):
            return str(place.staging(*key))
        secrets = await read_secret(self._services.objects, volume.stage_secret, "NodeStageSecretRef")
        staging = str(await asyncio.to_thread(place.record_staging, *key))
        try:
            await node.stage(stage_request(mounting.asking, staging, secrets))
        except CsiError as error:
            if error.is_final:
                await asyncio.to_thread(_forget_unstaged, place, key)
            raise VolumeFailed(f"NodeStageVolume: {error}") from None
        self._drivers.staged.add(key)
        return staging

    async def _publish(self, node: CsiNode, mounting: _Mounting, staging: str) -> None:
        """Bring the volume into the pod."""
        volume, place = mounting.asking.volume, mounting.place
        secrets = await read_secret(self._services.objects, volume.publish_secret, "NodePublishSecretRef")
        rules = mounting.rules
        about_pod = pod_attributes(mounting.pod, volume.lifecycle) if rules.pod_info else {}
        tokens = await pod_tokens(self._services.tokens, rules, mounting.pod)
        about_pod, secrets = (about_pod, secrets | tokens) if rules.tokens_in_secrets else (about_pod | tokens, secrets)
        places = (staging, str(place.target))
        try:
            await node.publish(publish_request(mounting.asking, places, about_pod, secrets))
        except CsiError as error:
            if error.is_final:
                await asyncio.to_thread(self._forget_unpublished, mounting)
            raise VolumeFailed(f"NodePublishVolume: {error}") from None
        if not await asyncio.to_thread(place.target.exists):
            raise VolumeFailed(f"its driver says that it is published, and there is nothing at {place.target}")

    def _forget_unpublished(self, mounting: _Mounting) -> None:
        """Remember that there is nothing to take back from the pod; one that has it from an earlier call keeps it."""
        place = mounting.place
        if mounts.is_mount_point(place.target):
            return
        with contextlib.suppress(OSError):
            place.target.rmdir()
        place.remember(mounting.asking.volume, self._services.settings.node_name, unpublished=True)

    async def _unstage_unless_used(self, node: CsiNode, place: Place, record: VolumeRecord) -> None:
        """Take a volume off the node that no other pod uses."""
        key = (record.driver, record.handle)
        staging = place.staging(*key)
        used = await asyncio.to_thread(place.used_by_others, *key)
        if used or not await asyncio.to_thread(staging.exists):
            return
        self._drivers.staged.discard(key)
        try:
            await node.unstage(record.handle, str(staging))
        except CsiError as error:
            raise VolumeFailed(f"kubernetes.io/csi: attacher.UnmountDevice failed: {error}") from None
        await asyncio.to_thread(place.remove_staging_record, *key)


async def _asking(node: CsiNode, volume: CsiVolume, pod: Mapping[str, Any], context: Mapping[str, str]) -> Asking:
    """Gather what a driver is to be told of a volume; raises VolumeFailed."""
    try:
        able = await node.capabilities()
    except CsiError as error:
        raise VolumeFailed(f"NodeGetCapabilities: {error}") from None
    wanted = fs_group_of(pod)
    return Asking(volume=volume, able=able, fs_group=wanted.group if wanted else None, publish_context=context)


def _forget_unstaged(place: Place, key: tuple[str, str]) -> None:
    """Remove what is remembered of a volume that its driver has refused for good, unless something of it is there."""
    if place.used_by_others(*key) or mounts.is_mount_point(place.staging(*key)) or mounts.is_mount_point(place.target):
        return
    with contextlib.suppress(OSError):  # what its driver has left there is looked at when the pod goes
        place.remove_staging_record(*key)
        place.forget()
