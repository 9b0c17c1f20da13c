"""What CSI volumes need besides mounting, every syncFrequency.

Volumes whose drivers ask for that are published again (`activities.csi.republishing`), and those of pods that nobody remembers
are given back (`activities.csi.forsaken`).
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from activities.csi.forsaken import forsaken
from activities.csi.places import Place
from activities.csi.republishing import Wish, wishes
from activities.node_services import NodeServices
from activities.volumes.volume_type import VolumeFailed

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def keeping_csi_volumes(services: NodeServices, every: timedelta) -> AsyncIterator[None]:
    """Look after them while the block runs."""
    task = asyncio.create_task(_for_ever(services, every))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _for_ever(services: NodeServices, every: timedelta) -> None:
    while True:
        await asyncio.sleep(every.total_seconds())
        await look_after(services)


def _found(root_dir: Path) -> tuple[list[Wish], list[Place]]:
    return list(wishes(root_dir)), list(forsaken(root_dir))


async def look_after(services: NodeServices) -> None:
    """Do what is to be done now."""
    again, back = await asyncio.to_thread(_found, services.settings.root_dir)
    if not again and not back:
        return
    from activities.csi.node_volumes import NodeVolumes  # noqa: PLC0415 - 3 MB, for whom has such a volume

    volumes = NodeVolumes(services)
    failed, left = (
        "a volume could not be published again; its pod keeps what it has",
        "a volume could not be given back",
    )
    ends = await asyncio.gather(
        *(_told(volumes.publish_again(one), failed, one.place) for one in again),
        *(_told(volumes.unmount(one), left, one) for one in back),
        return_exceptions=True,
    )
    for defect in ends:
        if defect is not None:
            _log.error("looking after a CSI volume failed unexpectedly", exc_info=defect)


async def _told(doing: Coroutine[Any, Any, None], failed: str, place: Place) -> None:
    try:
        await doing
    except (VolumeFailed, OSError) as error:
        _log.warning(failed, volume=str(place.shown), error=str(error))
