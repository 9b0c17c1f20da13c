"""Publishes CSI volumes again, every syncFrequency, whose driver asks for that (`activities.volumes.csi.records.republishing`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from activities.node_services import NodeServices
from activities.volumes.csi.records.republishing import Republished, republished_volumes
from activities.volumes.plugin.volume_type import VolumeFailed

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def republishing_volumes(services: NodeServices, every: timedelta) -> AsyncIterator[None]:
    """Publish them again while the block runs."""
    task = asyncio.create_task(_repeat(services, every))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _repeat(services: NodeServices, every: timedelta) -> None:
    while True:
        await asyncio.sleep(every.total_seconds())
        await republish_volumes(services)


async def republish_volumes(services: NodeServices) -> None:
    """Publish each such volume again; one that fails stays as it is."""
    found = await asyncio.to_thread(lambda: list(republished_volumes(services.settings.root_dir)))
    for defect in await asyncio.gather(*(_publish(services, one) for one in found), return_exceptions=True):
        if defect is not None:
            _log.error("publishing a CSI volume again failed unexpectedly", exc_info=defect)


async def _publish(services: NodeServices, one: Republished) -> None:
    from activities.volumes.csi.node_volumes import NodeVolumes  # noqa: PLC0415 - 3 MB, for whom has such a volume

    try:
        await NodeVolumes(services).publish_again(one)
    except (VolumeFailed, OSError) as error:
        message = "a volume could not be published again; its pod keeps what it has"
        _log.warning(message, volume=str(one.place.shown), error=str(error))
