"""Is this node well? Answered on loopback at 10248 for the whole node, and on the HTTPS API to whoever may ask there.

Well is: the loops of this process turn, and worker and poller run (one that hangs is ended by its watchdog). An API server, a Temporal or
a runtime that is away is no reason, for a restart mends none of them; the node's conditions tell of these.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.endpoints.listen import listen, opening
from worker.endpoints.server import Address, Route, healthz
from worker.node.process.peers import PeerProcesses

ALWAYS_OK: Final = ("ping", "log")
"""Checks of the kubelet's that are well when an answer comes at all."""
SYNC_LOOP: Final = "syncloop"
"""What the kubelet calls the check that its loop turns; ours are the loops of this process, and the other two."""


def sync_loop(health: LoopHealth, processes: PeerProcesses) -> str:
    """Name what keeps this node from doing its work; empty when nothing does."""
    return health() or ", ".join(processes.troubles())


@contextlib.asynccontextmanager
async def serving_healthz(config: NodeConfig, health: LoopHealth, processes: PeerProcesses) -> AsyncIterator[None]:
    """Answer on healthzBindAddress and healthzPort while the block runs; on port 0 nobody does."""
    if not config.healthz_port:
        yield
        return
    loop = asyncio.get_running_loop()

    def route(check: Callable[[], str]) -> Route:
        async def ask() -> str:
            return check()

        return healthz(ask, loop)

    works = route(lambda: sync_loop(health, processes))
    routes = {"/healthz": works, f"/healthz/{SYNC_LOOP}": works}
    routes |= {f"/healthz/{one}": route(str) for one in ALWAYS_OK}
    address = Address(config.healthz_bind_address, config.healthz_port)
    listening = asyncio.create_task(listen(opening(address, routes)))
    try:
        yield
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
