"""Undo, every syncFrequency, what pods that nobody remembers have mounted (`activities.volumes.forsaken_mounts`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import structlog

from activities.node_services import NodeServices
from activities.volumes.forsaken_mounts import is_marked, marked, mounts_of
from activities.volumes.volume_type import PodVolume, VolumeFailed
from proto.temporal.pod import PodKey

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def undoing_forsaken_mounts(services: NodeServices, every: timedelta) -> AsyncIterator[None]:
    """Do so while the block runs."""
    task = asyncio.create_task(_for_ever(services, every))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _for_ever(services: NodeServices, every: timedelta) -> None:
    while True:
        await asyncio.sleep(every.total_seconds())
        await undo_forsaken_mounts(services)


async def undo_forsaken_mounts(services: NodeServices) -> None:
    """Undo what is marked now, each pod for itself; what does not go is tried again the next time."""
    pods = await asyncio.to_thread(lambda: list(marked(services.settings.root_dir)))
    for defect in await asyncio.gather(*(_undo(services, pod) for pod in pods), return_exceptions=True):
        if defect is not None:
            _log.error("undoing the mounts of a forgotten pod failed unexpectedly", exc_info=defect)


async def _undo(services: NodeServices, pod: Path) -> None:
    """Undo a pod's, unless it has come back meanwhile and mounts."""
    key = PodKey("", "", pod.name)
    async with services.locks.hold(f"{pod.name}//volumes"):
        if not await asyncio.to_thread(is_marked, pod):
            return
        for kind, name in await asyncio.to_thread(mounts_of, pod):
            try:
                await _unmount(kind, PodVolume(key, name, {}, {}, services))
            except (VolumeFailed, OSError) as error:
                _log.warning("a volume could not be unmounted", volume=name, podUID=pod.name, error=str(error))


async def _unmount(kind: str, volume: PodVolume) -> None:
    from activities.volumes import fc, iscsi, local, nfs  # noqa: PLC0415 - only who has such a volume needs them

    match kind:
        case "nfs":
            await nfs.TYPE.unmount(volume)
        case "iscsi":
            await iscsi.TYPE.unmount(volume)
        case "fc":
            await fc.TYPE.unmount(volume)
        case _:
            await local.PERSISTENT.unmount(volume, block=False)
