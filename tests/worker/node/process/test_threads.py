"""Does the node's own work continue while all other threads hang?"""

import asyncio
import os
import threading
from pathlib import Path

from proto.node_pressure import write_node_pressure
from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.node.pressure.watch import PressureWatch


async def test_pressure_is_looked_at_while_readers_of_logs_hang(tmp_path: Path) -> None:
    """As many as asyncio has threads, and more."""
    write_node_pressure(tmp_path, ["DiskPressure"])
    answered = threading.Event()
    hanging = [asyncio.ensure_future(asyncio.to_thread(answered.wait, 60)) for _ in range((os.cpu_count() or 1) + 40)]
    await asyncio.sleep(0)  # each has started, or is queued before ours
    try:
        watch = PressureWatch(NodeConfig("n1", tmp_path), lambda: None)
        async with asyncio.timeout(PATIENCE):
            await watch.measure()
        assert watch.conditions == {"DiskPressure"}
    finally:
        answered.set()
        await asyncio.gather(*hanging)
