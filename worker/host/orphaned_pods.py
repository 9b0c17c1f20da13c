"""Undoes, every syncFrequency, what only the worker can undo of orphaned pods: their cgroups and volumes.

The poller has marked their folders (`activities/pods/orphan_mark.py`), and removes them afterwards.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from activities.node_services import NodeServices
from activities.pods.orphan_mark import cgroup_lock, is_marked, marked_pods
from activities.volumes.orphaned_volumes import OrphanedVolume, orphaned_volumes, unmount_memory_volumes
from activities.volumes.plugin.table import persistent_type, volume_type
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed
from proto.temporal.pod import PodKey
from worker.daemon.background import in_background, repeat

_log = structlog.get_logger(__name__)


Cleaned = Callable[[int, int], None]
"""Takes how many pods had volumes, and of how many some could not be unmounted."""


def undoing_orphaned_pods(
    services: NodeServices, every: timedelta, cleaned: Cleaned
) -> AbstractAsyncContextManager[None]:
    """Undo them while the block runs."""
    return in_background("orphaned pods", partial(repeat, every, partial(undo_orphaned_pods, services, cleaned)))


async def undo_orphaned_pods(services: NodeServices, cleaned: Cleaned = lambda *_: None) -> None:
    """Remove the cgroups and unmount the volumes of all marked pods; what fails is tried again the next time."""
    pods = await asyncio.to_thread(lambda: list(marked_pods(services.settings.root_dir)))
    ends = await asyncio.gather(*(_undo(services, pod) for pod in pods), return_exceptions=True)
    cleaned(len(ends), sum(one is not True for one in ends))
    _log_defects(ends)


async def _undo(services: NodeServices, pod: Path) -> bool:
    """Undo what one pod has, unless a workflow starts it again meanwhile; returns whether no volume is left mounted.

    Its processes go first: they hold volumes.
    """
    async with services.locks.hold(cgroup_lock(pod.name)):
        if await asyncio.to_thread(is_marked, pod):
            await _remove_cgroup(services, pod.name)
    async with services.locks.hold(f"{pod.name}//volumes"):
        if await asyncio.to_thread(is_marked, pod):
            done = await _unmount_in_memory(pod)
            found = await asyncio.to_thread(orphaned_volumes, pod)
            ends = [_unmount(one, PodVolume(PodKey("", "", pod.name), one.name, {}, {}, services)) for one in found]
            results = await asyncio.gather(*ends, return_exceptions=True)
            _log_defects(results)
            return done and all(one is True for one in results)
    return True


async def _remove_cgroup(services: NodeServices, uid: str) -> None:
    try:
        await asyncio.to_thread(services.cgroups.remove_pod, uid)  # what the kernel still holds goes the next time
    except (OSError, ValueError) as error:
        _log.warning("the cgroup of an orphaned pod could not be removed", podUID=uid, error=str(error))


async def _unmount_in_memory(pod: Path) -> bool:
    try:
        await asyncio.to_thread(unmount_memory_volumes, pod)
    except OSError as error:
        _log.warning("volumes in memory could not be unmounted", podUID=pod.name, error=str(error))
        return False
    return True


async def _unmount(orphan: OrphanedVolume, volume: PodVolume) -> bool:
    try:
        if persistent := persistent_type(orphan.kind):
            await persistent.unmount(volume, block=orphan.block)
        elif own := volume_type(orphan.kind):
            await own.unmount(volume)
    except (VolumeFailed, OSError) as error:
        _log.warning("a volume could not be unmounted", volume=orphan.name, podUID=volume.pod.uid, error=str(error))
        return False
    return True


def _log_defects(ends: list[BaseException | bool]) -> None:
    for defect in ends:
        if isinstance(defect, BaseException):
            _log.error("undoing an orphaned pod failed unexpectedly", exc_info=defect)
