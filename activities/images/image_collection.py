"""Image garbage collection: watches the node's images, and removes unused ones.

workflows/decide/node/image_collection.py decides what is removed. The watch belongs to no pod and lasts until there is
something to do. Its heartbeats carry since when each image is known and when it was last used, so the next worker
knows that too; they are sent only when an image came, went, or is used or no longer used. Without regular ones a cancel
does not reach it: the newest watch ends the one before. A removal checks again that no container uses the image.
"""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

import structlog
from pydantic import TypeAdapter
from temporalio import activity

from activities.clients.cri_error import CriError
from activities.execution.attempt import Attempt, current_attempt
from activities.execution.errors import WORKER_STOPPING, non_retryable_failure, retryable_failure, runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.images.image_use import NodeImages
from activities.images.services import ImageServices
from proto.image_collection import ImageGone, ImagesSeen, ImageStays, ImagesUnseen
from proto.kubernetes.image_age import needs_attention
from proto.node_images import NodeImages as ShownImages
from proto.node_images import write_node_images
from proto.temporal import names
from proto.temporal.node import (
    ImageAge,
    ImageUse,
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
        self._images = NodeImages(services)
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
                use = await self._look(watch, request)
                if use is not None and needs_attention(use, request.policy, too_full_known=request.too_full):
                    return use
                await watch.pause(request.policy.look_every)
        finally:
            stopping.cancel()

    @activity.defn(name=names.REMOVE_IMAGE)
    async def remove_image(self, request: RemoveImage) -> RemovedImage:
        """Remove an image with all its names unless a container uses it; one that is gone counts as removed.

        Raises ImageGCFailed.
        """
        doing = f"remove image {request.name}"
        async with heartbeating(doing):
            try:
                removed = await self._images.remove(request.image_id, request.reason)
            except CriError as error:
                self._services.collection_step(ImageStays(request, error.details))
                raise runtime_failure(error, self._services.runtime.endpoint, "ImageGCFailed", doing) from error
        if not removed.in_use_by:
            self._services.collection_step(ImageGone(request.image_id))
        return removed

    async def _look(self, watch: "_Watch", request: WatchImages) -> ImageUse | None:
        """List images and their use; None while the runtime is unavailable, which its pods report."""
        try:
            use = await self._images.listed(watch.ages)
        except (CriError, OSError) as error:
            _log.warning("could not check the images: the runtime does not list them", err=str(error))
            words = error.details if isinstance(error, CriError) else str(error)
            self._services.collection_step(ImagesUnseen(datetime.now(UTC), request.policy, words))
            return None
        await asyncio.to_thread(_show, self._services.settings.root_dir, use)
        self._saw(watch, use)
        if needs_attention(use, request.policy, too_full_known=request.too_full):
            use = await self._images.with_mounted(use)
            self._saw(watch, use)
        self._services.collection_step(ImagesSeen(use, request.policy))
        return use

    def _saw(self, watch: "_Watch", use: ImageUse) -> None:
        watch.saw(use)
        self._services.image_ages.known = watch.ages


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


def _show(root_dir: Path, use: ImageUse) -> None:
    """Write what was seen to a file, for readers on the node."""
    seen = ShownImages(len(use.images), use.disk.capacity_bytes, use.disk.used_percent, use.at.isoformat())
    try:
        write_node_images(root_dir, seen)
    except OSError as error:
        _log.warning("could not write the state of the images for `tempolet images`", err=str(error))
