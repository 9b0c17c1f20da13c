"""Records the volumes that pods wait for until they are attached, for the node process, which lists them as in use (`proto/volumes_in_use.py`).

Those that an earlier process of this worker has recorded are dropped at its start: pods that still wait ask again.
"""

import asyncio
from contextlib import AbstractAsyncContextManager

from activities.node_services import NodeServices
from proto.volumes_in_use import wanted_volumes, write_wanted_volumes
from worker.daemon.background import in_background


async def record_wanted(services: NodeServices) -> None:
    """Record them at each change until cancelled; raises OSError, and then begins again."""
    root_dir, wanted = services.settings.root_dir, services.csi.wanted
    recorded = await asyncio.to_thread(wanted_volumes, root_dir)
    while True:
        wanted.changed.clear()
        if (names := wanted.names) != recorded:
            await asyncio.to_thread(write_wanted_volumes, root_dir, names)
            recorded = names
        await wanted.changed.wait()


def recording_wanted(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """Record them while the block runs."""
    return in_background("volumes to attach", lambda: record_wanted(services))
