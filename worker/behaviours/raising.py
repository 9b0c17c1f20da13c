"""Asks runs of an older behaviour to continue as new with the one that the node is committed to.

It runs for as long as the worker, because a healthy pod never continues as new by itself. Runs are asked one after the other,
with a pause, once the node is committed (`commitment.py`). A run continues as new as soon as no action is under way. It is seen in
visibility, which lags, so the runs are listed again until two listings have no old run. After that nothing is listed until the
commitment changes.
"""

import asyncio
import random
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import BEHAVIOUR_COMMITTED
from proto.temporal.signals import BehaviourCommitted
from worker.behaviours.commitment import LOWEST, Behaviours, Commitment
from worker.behaviours.runs import Run, runs_of
from worker.daemon.background import in_background, repeat
from worker.temporal.call_budget import CallBudget
from worker.temporal.executions import OPEN

PAUSE: Final = timedelta(seconds=1)
"""The average time between two runs that are asked: each adds some twenty events to the history."""
ENOUGH: Final = 2
"""Listings without an old run, after which no more are needed; the first may lack a run that has just started."""
TEMPORAL_AWAY: Final = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED}
)
"""After these the other runs are not asked either; the next look begins again."""
TOO_OLD: Final = "a run is too old for this release, its pod is left alone: an older release has to raise it first"

_log: Final = structlog.get_logger(__name__)


class Raising:
    """Raises the behaviour of a node's runs."""

    def __init__(
        self,
        client: Client,
        node: str,
        commitment: Commitment,
        *,
        pause: timedelta = PAUSE,
        budget: CallBudget | None = None,
    ) -> None:
        """`pause` is the average between two runs; `budget` is shared with the process's other calls."""
        self._client, self._node, self._commitment, self._pause = client, node, commitment, pause
        self._budget = budget or CallBudget()
        self._asked: dict[str, int] = {}
        """The number that each run was asked to follow, by run id."""
        self._known: dict[str, int] = {}
        """The number that each run follows, by run id."""
        self._found_none: list[Behaviours] = []
        """The commitment at each of the last listings without an old run."""

    async def look(self) -> None:
        """Ask every open run of an older behaviour to continue as new, unless all follow the committed one."""
        committed = self._commitment.numbers
        if self._found_none == [committed] * ENOUGH:
            return
        async with self._budget.call():
            runs = [run async for run in runs_of(self._client, self._node, OPEN, known=self._known)]
        self._known = {run.run_id: run.behaviour for run in runs if run.behaviour is not None}
        old = [run for run in runs if run.behaviour is not None and run.behaviour < committed.of(run.kind)]
        for run in old:
            try:
                await self._ask(run, committed.of(run.kind))
            except RPCError as error:  # it may be this run alone: one that takes no more signals, for example
                if error.status in TEMPORAL_AWAY:
                    raise
                _log.warning("could not ask a run to continue as new", workflow=run.workflow_id, err=error.message)
        self._found_none = [] if old else [*self._found_none, committed][-ENOUGH:]
        if self._found_none == [committed] * ENOUGH:
            self._asked, self._known = {}, {}

    async def _ask(self, run: Run, number: int) -> None:
        if self._asked.get(run.run_id) == number:
            return
        self._asked[run.run_id] = number
        if run.behaviour is not None and run.behaviour < LOWEST.of(run.kind):
            _log.error(TOO_OLD, workflow=run.workflow_id, behaviour=run.behaviour)
            return
        await asyncio.sleep(self._pause.total_seconds() * random.uniform(0.5, 1.5))  # noqa: S311 - spread, not secrecy
        try:
            handle = self._client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
            async with self._budget.call():
                await handle.signal(BEHAVIOUR_COMMITTED, BehaviourCommitted(number))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # the run has ended or continued as new meanwhile
                del self._asked[run.run_id]
                raise
            return
        _log.info(
            "asked a run to continue as new with a newer behaviour",
            workflow=run.workflow_id,
            old=run.behaviour,
            new=number,
        )


def raising_behaviours(raising: Raising, every: timedelta) -> AbstractAsyncContextManager[None]:
    """Look periodically while the block runs; if Temporal is unavailable, the next look tries again."""

    async def look() -> None:
        try:
            await raising.look()
        except (RPCError, RuntimeError) as error:  # RuntimeError: the SDK's core could not connect
            _log.warning("could not list the runs of older behaviours", err=str(error))

    return in_background("behaviours", partial(repeat, every, look))
