"""Publishes CSI volumes again, every syncFrequency, whose driver asks for that (`activities.volumes.csi.records.republishing`).

Each volume has a task of its own, so a driver that hangs delays no other volume. What fails is told as an event of the pod and tried
again after the kubelet's delays until it succeeds; the pod keeps what it has (operation_generator.go, exponential_backoff.go). A
pod that terminates gets nothing new, as with a kubelet.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from activities.node_services import NodeServices
from activities.volumes.csi.records.republishing import Republished, republished_volumes
from activities.volumes.plugin.volume_type import VolumeFailed
from proto.volume_events import VolumeEvent
from worker.daemon.background import in_background, repeat

FIRST_DELAY: Final = timedelta(milliseconds=500)
LONGEST_DELAY: Final = timedelta(minutes=2, seconds=2)
_DOUBLINGS: Final = 8
"""After which the longest delay is reached."""

_log: Final = structlog.get_logger(__name__)


def delay_after(failures: int) -> timedelta:
    """Return how long to wait after so many failures of one volume, at least one."""
    return min(FIRST_DELAY * (1 << min(failures - 1, _DOUBLINGS)), LONGEST_DELAY)


class Republishing:
    """The loop, and a task for each volume that is being published again."""

    def __init__(self, services: NodeServices, delay: Callable[[int], timedelta] = delay_after) -> None:
        self._services, self._delay = services, delay
        self._working: dict[Path, asyncio.Task[None]] = {}

    async def look(self) -> None:
        """Begin to publish each such volume again, unless that is still being done."""
        found = await asyncio.to_thread(lambda: list(republished_volumes(self._services.settings.root_dir)))
        for one in found:
            target = one.place.target
            if target not in self._working:
                work = asyncio.create_task(self._work(one), name=f"publish {target} again")
                self._working[target] = work
                work.add_done_callback(partial(self._ended, target))

    async def stop(self) -> None:
        """Give up what is being done; it is done again later."""
        working = list(self._working.values())
        for work in working:
            work.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    def _ended(self, target: Path, _: asyncio.Task[None]) -> None:
        del self._working[target]

    async def _work(self, one: Republished) -> None:
        """Publish a volume again until that succeeds; never raises."""
        failures = 0
        try:
            while not await self._published(one):
                failures += 1
                await asyncio.sleep(self._delay(failures).total_seconds())
        except Exception:  # noqa: BLE001 - a volume that nobody foresaw stops no other
            _log.exception("publishing a CSI volume again failed unexpectedly", volume=str(one.place.shown))

    async def _published(self, one: Republished) -> bool:
        """Publish a volume again; False if that failed, which its pod is told."""
        from activities.volumes.csi.node_volumes import NodeVolumes  # noqa: PLC0415 - 3 MB, for whom has such a volume

        if self._services.terminating.has(one.key.uid):
            return True
        try:
            await NodeVolumes(self._services).publish_again(one)
        except VolumeFailed as error:
            message = "a volume could not be published again; its pod keeps what it has"
            _log.warning(message, volume=str(one.place.shown), error=str(error))
            self._services.volume_changed(_failed(one, error))
            return False
        return True


def _failed(one: Republished, error: VolumeFailed) -> VolumeEvent:
    """Build the kubelet's event of a volume that could not be published again."""
    reason = "FailedMapVolume" if one.volume.block else "FailedMount"
    doing = error.step.value[one.volume.block]
    return VolumeEvent(one.key, None, True, reason, f'{doing} for volume "{one.volume.name}" : {error}')  # noqa: FBT003 - a warning


def republishing_volumes(
    services: NodeServices, every: timedelta, delay: Callable[[int], timedelta] = delay_after
) -> AbstractAsyncContextManager[None]:
    """Publish them again while the block runs."""
    republishing = Republishing(services, delay)

    async def run() -> None:
        try:
            await repeat(every, republishing.look)
        finally:
            await republishing.stop()

    return in_background("CSI republishing", run)
