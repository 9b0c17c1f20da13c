"""Asks runs of an older behaviour to continue as new with the one that the node is committed to.

It runs for as long as the worker, because a healthy pod never continues as new by itself. Runs are asked one after the other,
with a pause, once the node is committed (`commitment.py`). A run continues as new as soon as no action is under way. It is seen in
visibility, which lags, so the runs are listed again until two listings have no old run. After that nothing is listed until the
commitment changes, or this node has a state of an older number: a pod that the node has led may go on in a run as old as its state.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import BEHAVIOUR_COMMITTED
from proto.temporal.signals import BehaviourCommitted
from worker.behaviours.commitment import LOWEST, Behaviours, Commitment
from worker.behaviours.runs import Numbered, Run, runs_of
from worker.daemon.background import in_background
from worker.temporal.call_budget import CallBudget
from worker.temporal.executions import OPEN

PAUSE: Final = timedelta(seconds=1)
"""The average time between two runs that are asked: each adds some twenty events to the history."""
SOON: Final = timedelta(seconds=5)
"""Until the next look while there is something to do; doubled each time, up to the regular interval."""
ENOUGH: Final = 2
"""Listings without an old run, after which no more are needed; the first may lack a run that has just started."""
TEMPORAL_AWAY: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.CANCELLED,
    }
)
"""After these the other runs are not asked either; the next look begins again."""
TOO_OLD: Final = "a run is too old for this release, its pod is left alone: an older release has to raise it first"

_log: Final = structlog.get_logger(__name__)


class Raising:
    """Raises the behaviour of a node's runs."""

    def __init__(  # noqa: PLR0913 - a client, and what it is spared
        self,
        client: Client,
        node: str,
        commitment: Commitment,
        *,
        numbers: Callable[[], Mapping[str, Numbered]] = dict,
        pause: timedelta = PAUSE,
        budget: CallBudget | None = None,
    ) -> None:
        """Take `numbers`, the runs whose number this node knows by itself; `budget` is shared with the process's other calls."""
        self._client, self._node, self._commitment, self._pause = client, node, commitment, pause
        self._numbers = numbers
        self._budget = budget or CallBudget()
        self._asked: dict[str, int] = {}
        """The number that each run was asked to follow, by run id."""
        self._known: dict[str, int] = {}
        """The number that each run follows, by run id."""
        self._found_none: list[Behaviours] = []
        """The commitment at each of the last listings without an old run."""

    async def look(self) -> bool:
        """Ask every open run of an older behaviour to continue as new; returns whether another look is needed soon. Raises RPCError."""
        committed, numbers = self._commitment.numbers, self._numbers()
        if any(one.behaviour < committed.of(one.kind) for one in numbers.values()):
            self._found_none = []  # also one that was raised and that the node has led since: its next run may be as old as its state
        if self._found_none == [committed] * ENOUGH:
            return False
        self._known |= {run_id: one.behaviour for run_id, one in numbers.items()}
        old = await self._list(committed)
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
        return bool(old)

    async def _list(self, committed: Behaviours) -> list[Run]:
        """List the open runs of an older behaviour; what was read stays known if Temporal fails meanwhile. Raises RPCError."""
        known, runs = self._known, list[Run]()
        async with self._budget.call():
            async for run in runs_of(self._client, self._node, OPEN, known=known, odd=_is_odd):
                runs.append(run)
                if run.behaviour is not None:
                    known[run.run_id] = run.behaviour
        self._known = {run.run_id: run.behaviour for run in runs if run.behaviour is not None}
        return [run for run in runs if run.behaviour is not None and run.behaviour < committed.of(run.kind)]

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


def _is_odd(error: RPCError) -> bool:
    """Report whether an error is about one run alone, so that the others are raised nevertheless."""
    return error.status not in TEMPORAL_AWAY


def raising_behaviours(raising: Raising, every: timedelta) -> AbstractAsyncContextManager[None]:
    """Look at once, and periodically while the block runs; while runs are asked, or if Temporal is unavailable, soon again.

    A run may have continued as new between the list and the signal, and its next run is as old. So not before nothing is left to do
    the looks are `every` apart.
    """

    async def look() -> None:
        pause = SOON
        while True:
            try:
                is_needed = await raising.look()
            except (RPCError, RuntimeError) as error:  # RuntimeError: the SDK's core could not connect
                _log.warning("could not list the runs of older behaviours", err=str(error))
                is_needed = True
            await asyncio.sleep(min(pause, every).total_seconds() if is_needed else every.total_seconds())
            pause = pause * 2 if is_needed else SOON

    return in_background("behaviours", look)
