"""Temporal clients of this node's own processes.

The first process to start creates the key file. While Temporal does not answer, the processes wait, and systemd's
status line says so.
"""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog
from temporalio.client import Client, Plugin
from temporalio.runtime import Runtime

from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.temporal.keys import create_key_file
from worker.temporal.temporal_client import TemporalSettings, connect, prepare

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_log = structlog.get_logger(__name__)


def temporal_settings(config: NodeConfig) -> TemporalSettings:
    """Return how this node reaches Temporal, and the key file of its payloads."""
    keys = config.tempolet.temporal
    return TemporalSettings(
        key_file=config.payload_key_file,
        config_file=keys.config_file,
        profile=keys.profile,
        address=keys.address,
        namespace=keys.namespace,
        retention=keys.retention,
    )


def identity(role: str, node: str) -> str:
    """Return an identity for this process that no later process of the node has, also after a reboot."""
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]  # in clock ticks since the boot
    boot = BOOT_ID.read_text()[:8]
    return f"{role}/{node}/{socket.gethostname()}/{boot}-{started}"


def place_of(client: Client) -> str:
    """Return a client's address and namespace."""
    return f"{client.service_client.config.target_host} {client.namespace}"


async def node_client(
    config: NodeConfig,
    service: Service,
    *,
    role: str,
    runtime: Runtime | None = None,
    plugins: Sequence[Plugin] = (),
) -> Client | None:
    """Connect and prepare our namespace; None if asked to stop while Temporal does not answer."""

    def waiting(why: str) -> None:
        _log.warning(why)
        service.status(why)

    async def connected() -> Client:
        settings = replace(temporal_settings(config), sends_only=role == "poller")
        name = identity(role, config.node_name)
        client = await connect(settings, waiting=waiting, runtime=runtime, plugins=plugins, identity=name)
        await prepare(client, settings, waiting=waiting)
        return client

    create_key_file(config.payload_key_file)
    connecting = asyncio.create_task(connected())
    stopping = asyncio.create_task(service.stop_requested())
    await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if connecting.done():
        return connecting.result()
    connecting.cancel()
    return None
