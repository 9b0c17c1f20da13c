"""Whether this node's name is still its own: another machine may have taken it while this one was cut off from Temporal.

Tickets (`worker/tickets/`) let neither machine's runs act on the other. But both would go on for ever, each ending the other one's runs.
So the one that was replaced stops, and tells it. That is known from two things: another machine polls the node's queue, and
the newest run of the node's own workflow is not this machine's. For a machine that takes over ends the runs whose tickets it does not
know, and starts its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import Enum
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError

from proto.temporal.names import node_workflow_id
from proto.temporal.node import NodeStart
from proto.temporal.ticket import Ticket
from worker.daemon.background import in_background
from worker.host.temporal.other_machines import Watch, pollers, until_alone
from worker.temporal.executions import newest_run

LOOK_EVERY: Final = timedelta(seconds=30)
"""Three looks fail before another machine can have taken the name."""
UNSURE_EVERY: Final = timedelta(seconds=5)
_CALL_LIMIT: Final = timedelta(seconds=10)
UNREADABLE: Final = Ticket("?")
"""In place of the ticket of a run whose input this node cannot read."""

_log: Final = structlog.get_logger(__name__)


class Standing(Enum):
    """Whose name it is."""

    OURS = "ours"
    UNSURE = "unsure"
    """Another machine may be gone, or be about to take it."""
    TAKEN = "taken"


def standing(alive: Sequence[str], perhaps: Sequence[str], run: Ticket | None, own: Ticket | None) -> Standing:
    """Judge by the other machines that poll, or may, and the tickets of the node's own workflow: its open run's, and ours."""
    if not alive and not perhaps:
        return Standing.OURS
    if run is not None and (not run.incarnation or (own is not None and run.incarnation == own.incarnation)):
        return Standing.OURS  # the other one has taken nothing, or it is a run of a release without tickets
    return Standing.TAKEN if alive and run is not None else Standing.UNSURE


class NodeName:
    """The name of one node, as its worker holds it; used from one event loop."""

    def __init__(self, client: Client, node: str, own: Callable[[], Ticket | None]) -> None:
        """Take the ticket that this machine holds for the node's own workflow."""
        self._client, self._node, self._own = client, node, own
        self._watch = Watch(client.identity)
        self.taken = asyncio.Event()
        """Another machine has the name."""
        self.taken_by = ""
        """Which machine, and what to do; any thread may read it."""
        self.unsure = False
        """Another machine may have it: Temporal does not answer, or it is not known yet whether that machine is gone."""

    async def until_ours(self, *, waits: Callable[[str], None], refused: Callable[[str], None]) -> None:
        """Wait until no other machine has the name; raises RPCError. Each look tells that it `waits` or is `refused`."""

        def unsure(why: str) -> None:
            self.unsure = True
            waits(why)

        def taken(why: str) -> None:
            self._take(why)
            refused(why)

        await until_alone(self._client, self._node, waits=unsure, refused=taken)
        self._watch = Watch(self._client.identity)
        self.taken_by, self.taken, self.unsure = "", asyncio.Event(), False

    async def is_ours(self) -> bool:
        """Look; a Temporal that does not answer leaves it open."""
        try:
            is_ours = await self.look() is Standing.OURS
        except (RPCError, RuntimeError):
            is_ours = False
        self.unsure = not is_ours
        return is_ours

    async def look(self) -> Standing:
        """Look who has the name now; raises RPCError, or RuntimeError if there is no connection."""
        now = asyncio.get_running_loop().time()
        alive, perhaps = self._watch.look(await pollers(self._client, self._node), now)
        run = await self._run() if alive or perhaps else None
        found = standing(alive, perhaps, run, await asyncio.to_thread(self._own))
        if found is Standing.TAKEN:
            self._take(
                f"another machine has taken over node {self._node} in namespace {self._client.namespace} while this one was cut "
                f"off, as {alive[0]}: stop it there, or give one of both another --hostname-override"
            )
        return found

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look regularly while the block runs."""
        async with in_background("other machines of this node's name", self._look_regularly):
            yield

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep((UNSURE_EVERY if self.unsure else LOOK_EVERY).total_seconds())
            await self.is_ours()

    def _take(self, why: str) -> None:
        if not self.taken_by:
            _log.error("this machine does nothing for the node any more", reason=why)
        self.taken_by = why
        self.taken.set()

    async def _run(self) -> Ticket | None:
        """Return the ticket of the open run of the node's own workflow; None if there is none."""
        run = await newest_run(self._client, node_workflow_id(self._node), NodeStart, limit=_CALL_LIMIT)
        if not run.is_open:
            return None
        return run.start.ticket if run.start else UNREADABLE
