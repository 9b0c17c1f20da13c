"""Is the Node's status computed at once when its machine begins to shut down, and when it goes on?"""

import asyncio
from pathlib import Path

from worker.machine.shutdown_sign import ShutdownSign
from worker.node.object.sync import follow_shutdowns


async def test_the_status_is_computed_at_once(tmp_path: Path) -> None:
    """Its timer alone would take ten seconds."""
    sign, sync_now = ShutdownSign(tmp_path), asyncio.Event()
    following = asyncio.create_task(follow_shutdowns(sign, sync_now))
    async with asyncio.timeout(20):
        for change in (sign.set, sign.clear):
            await asyncio.sleep(0)
            assert not sync_now.is_set()
            change()
            await sync_now.wait()
            sync_now.clear()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
