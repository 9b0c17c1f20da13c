"""A served socket in front of a FakeLead, and clients of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from proto.temporal import names
from proto.temporal.node import NodeConfigured
from proto.temporal.operator import SkipBackoff
from proto.temporal.pod import PodStart
from proto.temporal.pod_inputs import FirstSight
from proto.temporal.signals import DeletionRequested, PodListed, ProbeVerdict, RuntimeChanged
from tests.patience import PATIENCE
from tests.worker.delivery.fake_lead import FakeLead
from worker.delivery.client import SocketLead
from worker.delivery.frames import read_frame
from worker.delivery.lead import Answer, Message
from worker.delivery.server import LeadServer, Limits
from worker.payloads.receiving import ReceivingConverter
from worker.payloads.sending import SendingConverter

POD = "pod/n1/default/web/u1"
SHAPES: dict[str, type] = {
    names.POD_LISTED: PodListed,
    names.DELETION_REQUESTED: DeletionRequested,
    names.RUNTIME_CHANGED: RuntimeChanged,
    names.PROBE_VERDICT: ProbeVerdict,
    names.NODE_CONFIGURED: NodeConfigured,
    names.SKIP_BACKOFF: SkipBackoff,
}
START = PodStart("n1", {"metadata": {"name": "web"}, "spec": {"x": "ü☃"}}, first_sight=FirstSight(grace=timedelta(1)))
ASKED = Message(POD, names.SKIP_BACKOFF, SkipBackoff("root@n1", "c", "command", 5), "command", 5)
NOBODY = 65534


class Served:
    """A served socket."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.lead = path, FakeLead()
        self.server = LeadServer(self.lead, ReceivingConverter(), SHAPES, limits=limits)
        self.client = SocketLead(path, SendingConverter(), within=timedelta(seconds=PATIENCE))
        self.command = SocketLead(path, ReceivingConverter(), within=timedelta(seconds=PATIENCE))

    async def raw(self, data: bytes) -> dict[str, Any]:
        """Send bytes and read the answer."""
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(self.path)
            with contextlib.suppress(OSError):  # it may not even be read
                writer.write(data)
                await writer.drain()
            try:
                return dict(await read_frame(reader))
            finally:
                writer.close()

    async def answers(self) -> None:
        """Fail if it does not answer a good peer."""
        async with asyncio.timeout(PATIENCE):
            assert await self.client.lead(POD) is Answer.TAKEN


@contextlib.asynccontextmanager
async def serving(folder: Path, limits: Limits) -> AsyncIterator[Served]:
    """Serve a lead of one pod."""
    served = Served(folder / "s" / "worker.sock", limits)
    served.lead.take(POD)
    async with served.server.serving(served.path):
        yield served
