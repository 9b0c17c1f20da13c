"""Have volumes published again whose drivers ask for that, every syncFrequency (`activities.csi.republishing`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from activities.csi.republishing import Wish, wishes
from activities.node_services import NodeServices
from activities.volumes.volume_type import VolumeFailed

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def republishing(services: NodeServices, every: timedelta) -> AsyncIterator[None]:
    """Publish again while the block runs."""
    task = asyncio.create_task(_for_ever(services, every))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _for_ever(services: NodeServices, every: timedelta) -> None:
    while True:
        await asyncio.sleep(every.total_seconds())
        found = await asyncio.to_thread(lambda: list(wishes(services.settings.root_dir)))
        await asyncio.gather(*(_publish_again(services, one) for one in found))


async def _publish_again(services: NodeServices, wish: Wish) -> None:
    from activities.csi.node_volumes import NodeVolumes  # noqa: PLC0415 - 3 MB, for whom has such a volume

    try:
        await NodeVolumes(services).publish_again(wish)
    except (VolumeFailed, OSError) as error:
        _log.warning(
            "a volume could not be published again; its pod keeps what it has",
            podUID=wish.place.pod_uid,
            volume=wish.volume.name,
            error=str(error),
        )
