"""Temporal clients of this node's own processes.

The first process to start creates the key file. A process starts without Temporal: its client is made at once, and works once
`reach` has connected it and prepared the namespace. What is awaited is logged when it changes, and is in systemd's status
line; if Temporal refuses us, that is a trouble, too. Settings that no server could answer end the start.

The worker also waits while the secret of an active key is missing: it takes no task before, because it could not say which
messages are ours. If it finds that out later, it stops, and its next start waits.
"""

import asyncio
import contextlib
import hashlib
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog
from temporalio.client import Client, Plugin
from temporalio.runtime import Runtime
from temporalio.service import RPCError

from activities.machine.boot_id import BOOT_ID
from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.daemon.troubles import TROUBLES
from worker.machine.machine import read_machine
from worker.temporal.connect_errors import refusal
from worker.temporal.connection import connection_of
from worker.temporal.keys import KeyFile, create_key_file
from worker.temporal.namespace import TemporalNotPrepared
from worker.temporal.temporal_client import TemporalSettings, client_opened_later, not_connected, prepare

LOOK_AGAIN: Final = timedelta(seconds=1)
"""Until a key file that lacks a secret is read again."""
FIRST_PAUSE: Final = timedelta(milliseconds=200)
LONGEST_PAUSE: Final = timedelta(seconds=10)
"""Between two tries to reach Temporal."""
JITTER: Final = 0.25
"""Share of a pause by which it varies, so that many nodes do not come back at once."""
FIRST_TRY: Final = timedelta(seconds=5)
"""For how long a process waits before it starts without Temporal."""
TEMPORAL: Final = "Temporal"
"""Names the part in the record of troubles."""
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
    """Return an identity for this process that no later process of the node has, also after a reboot.

    It has a mark of the machine, by which two machines of one node name know each other (`worker/host/temporal/other_machines.py`).
    """
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]  # in clock ticks since the boot
    boot = BOOT_ID.read_text()[:8]
    return f"{role}/{node}/{socket.gethostname()}/m{_machine_mark()}-{boot}-{started}"


def _machine_mark() -> str:
    """Return eight hex digits that do not tell the machine's id, which is confidential (machine-id(5))."""
    machine = read_machine()
    ids = f"tempolet {machine.system_uuid} {machine.machine_id}"
    return hashlib.sha256(ids.encode()).hexdigest()[:8]


class NodeClient:
    """The client of one process, and its way to Temporal."""

    def __init__(self, client: Client, settings: TemporalSettings, service: Service, *, reads: bool) -> None:
        """`reads`: payloads are read, for which the secret of each active key is needed."""
        self.client = client
        self._connection = connection_of(client)
        self._settings, self._service, self._reads = settings, service, reads
        self._told = ""
        self._tried = asyncio.Event()

    @property
    def namespace_gone(self) -> asyncio.Event:
        """Set when a call was answered that the namespace does not exist (any more)."""
        return self._connection.namespace_gone

    async def reach(self) -> None:
        """Wait until Temporal answers and has what tempolet needs, then use it; raises nothing that passes."""
        if self._reads:
            await secrets_complete(self._settings.key_file, self.waits)
        pause = FIRST_PAUSE
        while not await self._try():
            self._tried.set()
            await asyncio.sleep(spread(pause).total_seconds())
            pause = min(pause * 2, LONGEST_PAUSE)
        self._tried.set()
        self.goes_on()

    async def stay(self) -> None:
        """Reach Temporal, and again whenever the namespace is gone, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            await self.reach()
            await self.namespace_gone.wait()
            await asyncio.sleep(spread(pause).total_seconds())
            pause = min(pause * 2, LONGEST_PAUSE)

    async def tried(self) -> None:
        """Wait until the first try to reach Temporal has succeeded or failed, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_TRY.total_seconds()):
                await self._tried.wait()

    def waits(self, why: str) -> None:
        """Tell what Temporal is waited for; what was told already is not logged again."""
        TROUBLES.works(TEMPORAL)
        self._tell(why, _log.warning)

    def refused(self, why: str) -> None:
        """Tell what somebody has to change; it is a trouble until then."""
        TROUBLES.failed(TEMPORAL, why)
        self._tell(why, _log.error)

    def goes_on(self) -> None:
        """Tell that Temporal is used."""
        TROUBLES.works(TEMPORAL)
        self._service.note("")
        if self._told:
            _log.info("Temporal answers")
        self._told = ""

    async def _try(self) -> bool:
        """Connect and prepare; False if that is not possible yet, which is told."""
        try:
            opened = await self._connection.connect_once()
            raw = Client(opened, namespace=self.client.namespace)
            await prepare(raw, self._settings, waiting=self.waits)
        except RuntimeError as error:  # raised by the SDK's core if it cannot connect
            tell = self.refused if refusal(error) else self.waits
            tell(not_connected(self._settings, error))
            return False
        except (RPCError, TemporalNotPrepared) as error:
            self.refused(f"Temporal does not prepare the namespace: {error}")
            return False
        self._connection.use(opened)
        return True

    def _tell(self, why: str, log: Callable[[str], None]) -> None:
        if why != self._told:
            log(why)
        self._told = why
        self._service.note(why)


async def node_client(
    config: NodeConfig, service: Service, *, role: str, runtime: Runtime | None = None, plugins: Sequence[Plugin] = ()
) -> NodeClient:
    """Make a client that is not connected yet; raises TemporalMisconfigured and KeyFileRefused."""

    def stopping_without(why: str) -> None:
        _log.error("the worker stops", reason=why)
        service.status(why)
        service.stop()

    create_key_file(config.payload_key_file)
    reads = role == "worker"
    settings = replace(temporal_settings(config), sends_only=not reads, key_missing=stopping_without if reads else None)
    name = identity(role, config.node_name)
    client = await client_opened_later(settings, runtime=runtime, plugins=plugins, identity=name)
    return NodeClient(client, settings, service, reads=reads)


def spread(pause: timedelta) -> timedelta:
    """Return a pause, varied."""
    return pause * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spread, not secrecy


async def secrets_complete(key_file: Path, waiting: Callable[[str], None]) -> None:
    """Wait until the key file has the secret of each active key; raises KeyFileRefused."""
    while lack := KeyFile(key_file).lack:
        waiting(lack)
        await asyncio.sleep(LOOK_AGAIN.total_seconds())
