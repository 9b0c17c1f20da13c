"""The API server client of a node's processes: one `ApiServer` each, none on a standalone node."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from activities.clients.api_server.kubeconfig import KubeconfigRefused, load_kubeconfig
from worker.daemon.config import NodeConfig
from worker.daemon.service import Service

LOOK: Final = timedelta(seconds=1)

_log: Final = structlog.get_logger(__name__)

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer, Measure


@contextlib.asynccontextmanager
async def open_api(
    config: NodeConfig, role: str, measure: "Measure | None" = None
) -> AsyncIterator["ApiServer | None"]:
    """Open the client while the block runs; None without a kubeconfig. Raises KubeconfigRefused; does not connect yet.

    `measure` counts its requests.
    """
    if config.cluster is None:
        yield None
        return
    from activities.clients.api_server.api_server import ApiServer  # noqa: PLC0415 - an HTTP client of 25 MB, which a standalone node does not need

    path = config.cluster.kubeconfig
    if not path.exists():
        raise KubeconfigRefused(
            f"--kubeconfig {path}: no such file; put this node's kubeconfig there, or give --bootstrap-kubeconfig to get one"
        )
    kubeconfig = replace(load_kubeconfig(path), rotated=config.cluster.client_pair)
    async with ApiServer(kubeconfig, user_agent=f"tempolet-{role}") as api:
        api.measure = measure
        yield api


async def kubeconfig_awaited(config: NodeConfig, service: Service) -> bool:
    """Wait for the kubeconfig while the node process bootstraps; False if asked to stop in the meantime."""
    cluster = config.cluster
    if cluster is None or cluster.bootstrap_kubeconfig is None or cluster.kubeconfig.exists():
        return True
    why = f"waiting for {cluster.kubeconfig}, which `tempolet node` writes once this node has a certificate"
    _log.warning(why)
    service.status(why)
    stopping = asyncio.create_task(service.stop_requested())
    try:
        while not cluster.kubeconfig.exists() and not stopping.done():
            await asyncio.wait({stopping}, timeout=LOOK.total_seconds())
        return not stopping.done()
    finally:
        stopping.cancel()
