"""Asks runs of an older behaviour to continue as new with the one that the node is committed to.

Runs beside the worker for as long as it lives, for a healthy pod never continues as new by itself. Nothing is asked before the
node is committed (`commitment.py`), and then one run after the other with a pause. A run that is asked waits for a quiet moment,
and visibility, which lags, tells when it has gone on; so all runs are looked at again until two looks have found none that is
old. From then on only another commitment is waited for.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import timedelta
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import BEHAVIOUR_COMMITTED
from proto.temporal.signals import BehaviourCommitted
from worker.behaviours.commitment import LOWEST, Behaviours, Commitment
from worker.behaviours.runs import Run, runs_of

PAUSE: Final = timedelta(seconds=1)
"""Between two runs that are asked, on the average: each takes some twenty events of history."""
ENOUGH: Final = 2
"""Looks; the first may have missed a run that had just begun."""
OPEN: Final = "ExecutionStatus = 'Running'"
TOO_OLD: Final = "a run is too old for this release, its pod is left alone: an older release has to raise it first"

_log: Final = structlog.get_logger(__name__)


class Raising:
    """Raises the runs of one node."""

    def __init__(self, client: Client, node: str, commitment: Commitment, *, pause: timedelta = PAUSE) -> None:
        self._client, self._node, self._commitment, self._pause = client, node, commitment, pause
        self._asked: dict[str, int] = {}
        """By run: the number that it was asked to take up."""
        self._known: dict[str, int] = {}
        """By run: the number that it follows."""
        self._found_none: list[Behaviours] = []
        """What the node was committed to at each of the last looks that found no older run."""

    async def look(self) -> None:
        """Ask every open run of an older behaviour, unless all are known to follow the committed one."""
        committed = self._commitment.numbers
        if self._found_none == [committed] * ENOUGH:
            return
        runs = [run async for run in runs_of(self._client, self._node, OPEN, known=self._known)]
        self._known = {run.run_id: run.behaviour for run in runs if run.behaviour is not None}
        old = [run for run in runs if run.behaviour is not None and run.behaviour < number_of(committed, run)]
        for run in old:
            await self._ask(run, number_of(committed, run))
        self._found_none = [] if old else [*self._found_none, committed][-ENOUGH:]
        if self._found_none == [committed] * ENOUGH:
            self._asked, self._known = {}, {}

    async def _ask(self, run: Run, number: int) -> None:
        if self._asked.get(run.run_id) == number:
            return
        self._asked[run.run_id] = number
        if run.behaviour is not None and run.behaviour < number_of(LOWEST, run):
            _log.error(TOO_OLD, workflow=run.workflow_id, behaviour=run.behaviour)
            return
        await asyncio.sleep(self._pause.total_seconds() * random.uniform(0.5, 1.5))  # noqa: S311 - spread, not secrecy
        try:
            handle = self._client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
            await handle.signal(BEHAVIOUR_COMMITTED, BehaviourCommitted(number))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended, or gone on, meanwhile
                del self._asked[run.run_id]
                raise
            return
        _log.info("a run is asked to take up a behaviour", workflow=run.workflow_id, old=run.behaviour, new=number)


def number_of(numbers: Behaviours, run: Run) -> int:
    """Give the number of a run's kind."""
    number: int = asdict(numbers)[run.kind]
    return number


@contextlib.asynccontextmanager
async def raising_behaviours(raising: Raising, every: timedelta) -> AsyncIterator[None]:
    """Look again and again while the block runs; a Temporal that is away is tried at the next look."""

    async def look_again() -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await raising.look()
            except (RPCError, RuntimeError) as error:  # the latter where the SDK's core could not connect
                _log.warning("runs of older behaviours could not be looked for", err=str(error))

    looking = asyncio.create_task(look_again())
    try:
        yield
    finally:
        looking.cancel()
