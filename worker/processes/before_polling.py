"""What the worker does in Temporal before it asks for work, in this order.

1. It compares what Temporal has with what this node has. What Temporal lacks is led here (`worker/stand_in/comparing/`).
2. It replays what is open, if its code has changed. What does not replay is led here (`worker/host/replays/`).
3. It fails the attempts that an earlier worker has left, so that Temporal retries them here (`worker/host/temporal/takeover.py`).

Called by `hosting.py` for each connection. Nothing goes on in Temporal meanwhile, so all three share one look at it, and each has a limit
in time: a Temporal that is slow keeps no node from working.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from temporalio.client import Client

from proto.temporal.names import node_workflow_id
from worker.host.temporal.first_look import FirstLook
from worker.host.temporal.takeover import TakenOver, take_over
from worker.temporal.call_budget import CallBudget


@dataclass(slots=True)
class Phase:
    """How far this process's part in Temporal is; whoever leads the pods reads it."""

    is_replaying: bool = False
    """Temporal answers, and open histories are being replayed."""
    is_hosting: bool = False
    """The SDK's worker runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforePolling:
    """What one worker process does before it asks for work."""

    node: str
    compare: Callable[[FirstLook], Awaitable[None]]
    """Finds out whether Temporal has what this node has; what it lacks is led by the node until it is handed back. Raises nothing."""
    replay: Callable[[FirstLook, Iterable[str]], Awaitable[None]]
    """Replays what is open, these workflows among it; raises nothing."""
    known: Callable[[], Iterable[str]]
    """Returns the pods' workflows of which the node knows by itself; visibility may not list them yet."""
    budget: CallBudget
    phase: Phase

    async def run(self, client: Client) -> TakenOver:
        """Do it all; afterwards the SDK's worker may begin."""
        look, known = self._look(client), [node_workflow_id(self.node), *self.known()]
        await self.compare(look)
        self.phase.is_replaying = True
        try:
            await self.replay(look, known)
        finally:
            self.phase.is_replaying = False
        return await take_over(look, client.identity, known)

    async def compare_again(self, client: Client) -> None:
        """Compare once more: the connection was lost, and another database may answer now."""
        await self.compare(self._look(client))

    def _look(self, client: Client) -> FirstLook:
        return FirstLook(client, self.node, self.budget)
