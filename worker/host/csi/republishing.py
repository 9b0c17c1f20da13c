"""Publishes CSI volumes again, every syncFrequency, whose driver asks for that (`activities.volumes.csi.records.republishing`)."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial

import structlog

from activities.node_services import NodeServices
from activities.volumes.csi.records.republishing import Republished, republished_volumes
from activities.volumes.plugin.volume_type import VolumeFailed
from worker.daemon.background import in_background, repeat

_log = structlog.get_logger(__name__)


def republishing_volumes(services: NodeServices, every: timedelta) -> AbstractAsyncContextManager[None]:
    """Publish them again while the block runs."""
    return in_background("CSI republishing", partial(repeat, every, partial(republish_volumes, services)))


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
