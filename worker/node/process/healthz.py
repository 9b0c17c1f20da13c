"""The health of this node: served on loopback at 10248 without credentials, and by the HTTPS API.

A node is healthy if the loops of this process turn, and worker and poller run (a watchdog ends one that hangs) and have come up once.
An API server, Temporal or runtime that becomes unavailable does not make it unhealthy, because a restart would not help; the
node's conditions report those. Nothing of ours waits for healthz.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.endpoints.listen import keep_open, opener
from worker.endpoints.server import Address, Route, healthz
from worker.node.process.peers import PeerProcesses

ALWAYS_OK: Final = ("ping", "log")
"""The kubelet's checks that pass if an answer comes at all."""
SYNC_LOOP: Final = "syncloop"
"""The kubelet's name for the check of its sync loop; here, the loops of this process and the other two processes."""


def sync_loop(health: LoopHealth, processes: PeerProcesses) -> str:
    """Return what keeps this node from working, or ""."""
    return health() or ", ".join(processes.troubles() or processes.unstarted())


@contextlib.asynccontextmanager
async def serving_healthz(config: NodeConfig, health: LoopHealth, processes: PeerProcesses) -> AsyncIterator[None]:
    """Serve on healthzBindAddress and healthzPort while the block runs; port 0 disables it."""
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
    async with in_background("healthz", partial(keep_open, opener(address, routes))):
        yield
