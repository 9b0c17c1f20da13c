"""Which images the node has, and which of them are in use: for their collection, and for room under pressure."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog

from activities.clients.cri_error import CriError, Remedy
from activities.images.services import ImageServices
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.image_age import BY_AGE
from proto.temporal.node import DiskUse, ImageAge, ImageUse, NodeImage, RemovedImage

_log: Final = structlog.get_logger(__name__)


class NodeImages:
    """The images of this node."""

    def __init__(self, services: ImageServices) -> None:
        self._services = services
        self._began = datetime.now(UTC)

    async def listed(self, ages: Mapping[str, ImageAge]) -> ImageUse:
        """List images, their disk and which are used by containers. Raises CriError, OSError."""
        runtime = self._services.runtime
        images, containers, places = await asyncio.gather(
            runtime.list_images(), runtime.list_containers(), runtime.image_fs_info()
        )
        disk = await asyncio.to_thread(_disk_use, [one.fs_id.mountpoint for one in places.image_filesystems])
        now = datetime.now(UTC)
        users = _used(containers)
        return ImageUse(now, disk, tuple(_seen(one, users, ages, now) for one in images), self._began)

    async def with_mounted(self, use: ImageUse) -> ImageUse:
        """Count image volumes as use, too; it takes a call for each container, so it is done only before a removal."""
        try:
            containers = await self._services.runtime.list_containers()
            mounted = {name for one in containers for name in await self._mounted(one)}
        except CriError as error:
            _log.warning("no images are removed: the runtime does not report which containers use them", err=str(error))
            return replace(use, images=tuple(replace(one, in_use=True) for one in use.images))
        return replace(
            use, images=tuple(_in_use(one, use.at) if one.image_id in mounted else one for one in use.images)
        )

    async def remove(self, image_id: str, reason: str = "") -> RemovedImage:
        """Remove an image with all its names unless a container uses it; one that is gone counts as removed.

        `reason` is the decision's. Raises CriError.
        """
        runtime = self._services.runtime
        try:
            if (image := await runtime.image_status(image_id)) is None:
                return RemovedImage()
            for one in await runtime.list_containers():
                if _names_of(image) & (_used([one]) | await self._mounted(one)):
                    return RemovedImage(in_use_by=f"container {one.metadata.name} ({one.id[:12]})")
            await runtime.remove_image(image_id)
            self._services.timings.image_removed("age" if reason.endswith(BY_AGE) else "space")
            await self._forget_records()
        except CriError as error:
            if error.remedy is not Remedy.GONE:
                raise
        return RemovedImage()

    async def _forget_records(self) -> None:
        """Remove the pull records of images that are gone; on failure, the next removal tries again."""
        if (rights := self._services.pull_rights) is None:
            return
        until = datetime.now(UTC)
        try:
            await rights.ready(self._services.runtime.image_id)
            await rights.prune({one.id for one in await self._services.runtime.list_images()}, until)
        except (CriError, OSError) as error:
            _log.warning(
                "could not remove the records of removed images; trying again with the next removal", err=str(error)
            )

    async def _mounted(self, container: cri.Container) -> set[str]:
        """List the images that a container has as volumes (handleImageVolumes)."""
        try:
            status = await self._services.runtime.container_status(container.id)
        except CriError as error:
            if error.remedy is Remedy.GONE:
                return set()
            raise
        return {mount.image.image for mount in status.mounts if mount.HasField("image")}


def _disk_use(mountpoints: Iterable[str]) -> DiskUse:
    """Return the use of the fullest file system with images. Raises OSError."""
    found = []
    for mountpoint in mountpoints:
        disk = os.statvfs(mountpoint)
        found.append(DiskUse(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize))
    return max(found, key=lambda one: one.used_percent, default=DiskUse(0, 0))


def _used(containers: Iterable[cri.Container]) -> set[str]:
    """List the images of all containers, running or not."""
    return {name for one in containers for name in (one.image_id, one.image_ref, one.image.image) if name}


def _names_of(image: cri.Image) -> set[str]:
    return {image.id, *image.repo_tags, *image.repo_digests}


def _in_use(image: NodeImage, now: datetime) -> NodeImage:
    return replace(image, in_use=True, age=replace(image.age, used_at=now))


def _seen(image: cri.Image, used: set[str], ages: Mapping[str, ImageAge], now: datetime) -> NodeImage:
    """Merge what is known of one image."""
    before = ages.get(image.id)
    in_use = not used.isdisjoint(_names_of(image))
    age = ImageAge(
        image.id, before.detected_at if before else now, now if in_use else before.used_at if before else None
    )
    tags = tuple(image.repo_tags) or tuple(image.repo_digests[:1])
    return NodeImage(image.id, tags, image.size, age, in_use=in_use, pinned=image.pinned)
