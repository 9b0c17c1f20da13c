"""Image garbage collection: watches the node's images, and removes unused ones.

workflows/decide/node/image_collection.py decides what is removed. The watch belongs to no pod and lasts until there is
something to do. Its heartbeats carry since when each image is known and when it was last used, so the next worker
knows that too; they are sent only when an image came, went, or is used or no longer used. Without regular ones a cancel
does not reach it: the newest watch ends the one before. A removal checks again that no container uses the image.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

import structlog
from pydantic import TypeAdapter
from temporalio import activity

from activities.clients.cri_error import CriError, Remedy
from activities.execution.attempt import Attempt, current_attempt
from activities.execution.errors import WORKER_STOPPING, non_retryable_failure, retryable_failure, runtime_failure
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

_SHARE: Final = 3
"""Heartbeats in one heartbeat timeout, for a watch that an earlier release asked for."""

_AGES: Final = TypeAdapter(list[ImageAge])
_log: Final = structlog.get_logger(__name__)


class ImageCollectionActivities:
    """Activities that watch and remove images."""

    def __init__(self, services: ImageServices) -> None:
        self._services = services
        self._newest: _Watch | None = None
        """Of this process, also once it has ended: the next one knows what it saw, whoever asks for it."""

    @activity.defn(name=names.WATCH_IMAGES)
    async def watch_images(self, request: WatchImages) -> ImageUse:
        """Look at all images periodically; returns once something has to be done.

        Raises WorkerStopping, which Temporal retries in the next worker, and Superseded if a newer watch has begun.
        """
        attempt, before = current_attempt(), self._newest
        if before is not None:
            before.over.set()
        known = before.ages if before else _left_by_earlier_try(attempt) or {age.image_id: age for age in request.known}
        watch = self._newest = _Watch(attempt, known)
        stopping = asyncio.create_task(watch.end_with_worker())
        try:
            while True:
                use = await self._look(watch.ages)
                if use is not None:
                    watch.saw(use)
                if use is not None and needs_attention(use, request.policy, too_full_known=request.too_full):
                    use = await self._with_mounted(use)
                    watch.saw(use)
                    if needs_attention(use, request.policy, too_full_known=request.too_full):
                        return use
                await watch.pause(request.policy.look_every)
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


def _left_by_earlier_try(attempt: Attempt) -> dict[str, ImageAge]:
    """Read the ages from the last heartbeat of an earlier try."""
    return {age.image_id: age for age in _AGES.validate_python(attempt.earlier[0])} if attempt.earlier else {}


class _Watch:
    """One attempt's watch: what it knows, and until when it lasts."""

    def __init__(self, attempt: Attempt, ages: dict[str, ImageAge]) -> None:
        self._attempt = attempt
        self.ages = ages
        self.over = asyncio.Event()
        """The worker stops, or a newer watch has begun."""
        self._sent: set[tuple[str, bool]] | None = None
        timeout = attempt.heartbeat_timeout
        self._longest = timeout.total_seconds() / _SHARE if timeout else None

    async def end_with_worker(self) -> None:
        """End it when the worker begins to stop."""
        await self._attempt.stopping()
        self.over.set()

    def saw(self, use: ImageUse) -> None:
        """Note what was seen; a change is stored for the next worker."""
        self.ages = {one.image_id: one.age for one in use.images}
        users = {(one.image_id, one.in_use) for one in use.images}
        if users != self._sent:
            self._sent = users
            self._store()

    async def pause(self, time: timedelta) -> None:
        """Wait for the next look; raises WorkerStopping or Superseded."""
        until = monotonic() + time.total_seconds()
        while (left := until - monotonic()) > 0:
            try:
                async with asyncio.timeout(left if self._longest is None else min(left, self._longest)):
                    await self.over.wait()
            except TimeoutError:
                if self._longest is not None:
                    self._store()
                continue
            if not self._attempt.is_stopping():
                raise non_retryable_failure("Superseded", "a newer watch of the images has begun")
            self._store()
            raise retryable_failure(WORKER_STOPPING, "the worker stops; the next one continues to watch the images")

    def _store(self) -> None:
        self._attempt.say([asdict(age) for age in self.ages.values()])


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
