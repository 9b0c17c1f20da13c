"""Image garbage collection: watches the node's images, and removes unused ones.

workflows/decide/node/image_collection.py decides what is removed. The watch belongs to no pod and lasts until there is
something to do. Its heartbeats carry since when each image is known and when it was last used, so the next worker
knows that too. A removal checks again that no container uses the image.
"""

import asyncio
import os
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

import structlog
from temporalio import activity
from temporalio.converter import value_to_type

from activities.clients.cri_error import CriError, Remedy
from activities.execution.errors import WORKER_STOPPING, retryable_failure, runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.images.services import ImageServices
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.image_age import needs_attention
from proto.node_images import NodeImages, write_node_images
from proto.temporal import names
from proto.temporal.node import (
    DiskUse,
    ImageAge,
    ImageUse,
    NodeImage,
    RemovedImage,
    RemoveImage,
    WatchImages,
)

LONGEST_PAUSE: Final = timedelta(seconds=40)
"""Between two heartbeats of a watch, a third of its timeout."""

_log: Final = structlog.get_logger(__name__)


class ImageCollectionActivities:
    """Activities that watch and remove images."""

    def __init__(self, services: ImageServices) -> None:
        self._services = services

    @activity.defn(name=names.WATCH_IMAGES)
    async def watch_images(self, request: WatchImages) -> ImageUse:
        """Look at all images periodically; returns once something has to be done.

        Raises WorkerStopping, which Temporal retries in the next worker.
        """
        stopping = asyncio.create_task(activity.wait_for_worker_shutdown())
        ages = _left_by_earlier_try() or {age.image_id: age for age in request.known}
        try:
            while True:
                use = await self._look(ages)
                if use is not None:
                    ages = {one.image_id: one.age for one in use.images}
                if use is not None and needs_attention(use, request.policy, too_full_known=request.too_full):
                    use = await self._with_mounted(use)
                    ages = {one.image_id: one.age for one in use.images}
                    if needs_attention(use, request.policy, too_full_known=request.too_full):
                        return use
                await _pause(request.policy.look_every, stopping, ages)
        finally:
            stopping.cancel()

    @activity.defn(name=names.REMOVE_IMAGE)
    async def remove_image(self, request: RemoveImage) -> RemovedImage:
        """Remove an image with all its names unless a container uses it; one that is gone counts as removed.

        Raises ImageGCFailed.
        """
        runtime, doing = self._services.runtime, f"remove image {request.name}"
        async with heartbeating(doing):
            try:
                if (image := await runtime.image_status(request.image_id)) is None:
                    return RemovedImage()
                containers = await runtime.list_containers()
                for one in containers:
                    if _names_of(image) & (_used([one]) | await self._mounted(one)):
                        return RemovedImage(in_use_by=f"container {one.metadata.name} ({one.id[:12]})")
                await runtime.remove_image(request.image_id)
                await self._forget_records()
            except CriError as error:
                if error.remedy is not Remedy.GONE:
                    raise runtime_failure(error, self._services.runtime.endpoint, "ImageGCFailed", doing) from error
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

    async def _look(self, ages: Mapping[str, ImageAge]) -> ImageUse | None:
        """List images and their use; None while the runtime is unavailable, which its pods report."""
        runtime = self._services.runtime
        try:
            images, containers, disks = await asyncio.gather(
                runtime.list_images(), runtime.list_containers(), runtime.image_fs_info()
            )
            disk = await asyncio.to_thread(_disk_use, [one.fs_id.mountpoint for one in disks])
        except (CriError, OSError) as error:
            _log.warning("could not check the images: the runtime does not list them", err=str(error))
            return None
        now = datetime.now(UTC)
        users = _used(containers)
        use = ImageUse(now, disk, tuple(_seen(one, users, ages, now) for one in images))
        await asyncio.to_thread(_show, self._services.settings.root_dir, use)
        return use

    async def _with_mounted(self, use: ImageUse) -> ImageUse:
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

    async def _mounted(self, container: cri.Container) -> set[str]:
        """List the images that a container has as volumes (handleImageVolumes)."""
        try:
            status = await self._services.runtime.container_status(container.id)
        except CriError as error:
            if error.remedy is Remedy.GONE:
                return set()
            raise
        return {mount.image.image for mount in status.mounts if mount.HasField("image")}


def _left_by_earlier_try() -> dict[str, ImageAge]:
    """Read the ages from the last heartbeat of an earlier try."""
    details = activity.info().heartbeat_details
    if not details:
        return {}
    ages: list[ImageAge] = value_to_type(list[ImageAge], details[0])
    return {age.image_id: age for age in ages}


async def _pause(time: timedelta, stopping: Awaitable[None], ages: Mapping[str, ImageAge]) -> None:
    """Wait for the next look and send heartbeats; raises WorkerStopping if the worker stops meanwhile."""
    until = monotonic() + time.total_seconds()
    known = [asdict(age) for age in ages.values()]
    while (left := until - monotonic()) > 0:
        activity.heartbeat(known)
        try:
            async with asyncio.timeout(min(left, LONGEST_PAUSE.total_seconds())):
                await asyncio.shield(stopping)
        except TimeoutError:
            continue
        activity.heartbeat(known)
        raise retryable_failure(WORKER_STOPPING, "the worker stops; the next one continues to watch the images")


def _disk_use(mountpoints: Iterable[str]) -> DiskUse:
    """Return the use of the fullest file system with images. Raises OSError."""
    found = []
    for mountpoint in mountpoints:
        disk = os.statvfs(mountpoint)
        found.append(DiskUse(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize))
    return max(found, key=lambda one: one.used_percent, default=DiskUse(0, 0))


def _show(root_dir: Path, use: ImageUse) -> None:
    """Write what was seen to a file, for readers on the node."""
    seen = NodeImages(len(use.images), use.disk.capacity_bytes, use.disk.used_percent, use.at.isoformat())
    try:
        write_node_images(root_dir, seen)
    except OSError as error:
        _log.warning("could not write the state of the images for `tempolet images`", err=str(error))


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
