"""Unmounts, every syncFrequency, the volumes of orphaned pods (`activities.volumes.orphaned_volumes`)."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from activities.node_services import NodeServices
from activities.volumes.orphaned_volumes import OrphanedVolume, is_marked, marked_pods, orphaned_volumes
from activities.volumes.plugin.table import persistent_type, volume_type
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed
from proto.temporal.pod import PodKey
from worker.daemon.background import in_background, repeat

_log = structlog.get_logger(__name__)


def unmounting_orphaned_volumes(services: NodeServices, every: timedelta) -> AbstractAsyncContextManager[None]:
    """Unmount them while the block runs."""
    return in_background("orphaned volumes", partial(repeat, every, partial(unmount_orphaned_volumes, services)))


async def unmount_orphaned_volumes(services: NodeServices) -> None:
    """Unmount the volumes of all marked pods; one that fails is tried again the next time."""
    pods = await asyncio.to_thread(lambda: list(marked_pods(services.settings.root_dir)))
    _log_defects(await asyncio.gather(*(_unmount_all(services, pod) for pod in pods), return_exceptions=True))


async def _unmount_all(services: NodeServices, pod: Path) -> None:
    """Unmount the volumes of one pod, unless a workflow mounts them again meanwhile."""
    async with services.locks.hold(f"{pod.name}//volumes"):
        if await asyncio.to_thread(is_marked, pod):
            found = await asyncio.to_thread(orphaned_volumes, pod)
            ends = [_unmount(one, PodVolume(PodKey("", "", pod.name), one.name, {}, {}, services)) for one in found]
            _log_defects(await asyncio.gather(*ends, return_exceptions=True))


async def _unmount(orphan: OrphanedVolume, volume: PodVolume) -> None:
    try:
        if persistent := persistent_type(orphan.kind):
            await persistent.unmount(volume, block=orphan.block)
        elif own := volume_type(orphan.kind):
            await own.unmount(volume)
    except (VolumeFailed, OSError) as error:
        _log.warning("a volume could not be unmounted", volume=orphan.name, podUID=volume.pod.uid, error=str(error))


def _log_defects(ends: list[BaseException | None]) -> None:
    for defect in ends:
        if defect is not None:
            _log.error("unmounting the volumes of an orphaned pod failed unexpectedly", exc_info=defect)
