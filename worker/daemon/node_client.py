"""Temporal clients of this node's own processes.

The first process to start creates the key file. While Temporal does not answer, the processes wait, and systemd's
status line says so. So does the worker while the secret of an active key is missing: it takes no task before, because it
could not say which messages are ours. If it finds that out later, it stops, and its next start waits.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog
from temporalio.client import Client, Plugin
from temporalio.runtime import Runtime

from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.temporal.keys import KeyFile, create_key_file
from worker.temporal.temporal_client import TemporalSettings, connect, prepare

LOOK_AGAIN: Final = timedelta(seconds=1)
"""Until a key file that lacks a secret is read again."""
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

    def stopping_without(why: str) -> None:
        _log.error("the worker stops", reason=why)
        service.status(why)
        service.stop()

    async def connected() -> Client:
        settings = replace(temporal_settings(config), sends_only=role == "poller")
        if role == "worker":
            await secrets_complete(settings.key_file, waiting)
            settings = replace(settings, key_missing=stopping_without)
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


async def secrets_complete(key_file: Path, waiting: Callable[[str], None]) -> None:
    """Wait until the key file has the secret of each active key; raises KeyFileRefused."""
    while lack := KeyFile(key_file).lack:
        waiting(lack)
        await asyncio.sleep(LOOK_AGAIN.total_seconds())
