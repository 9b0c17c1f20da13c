"""Finds out, before this worker asks Temporal for work, whether Temporal has what the node has.

A database that was lost, or that is an older one, would begin pods anew, or go on from a moment that is over: hooks would run
again, and restarts would be forgotten. So the node leads each such pod from its own record, as in an outage, and hands it back. What is closed in
Temporal, with all that the node has seen, is forgotten: somebody has ended it.

Until that is settled no activity of Temporal runs here, and no other process starts a pod or removes what one has left.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import structlog
from temporalio.service import RPCError

from worker.stand_in.comparing.judgement import Judged, Seen, Standing, judge
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Place, is_node

WITHIN: Final = timedelta(seconds=30)
"""For all pods together: a Temporal that throttles or answers late keeps no node from working."""
AT_ONCE: Final = 16

_log: Final = structlog.get_logger(__name__)


class Temporal(Protocol):
    """What Temporal has (`looking.py`)."""

    async def namespace_id(self) -> str:
        """Return the id of the namespace; raises RPCError."""
        ...

    async def see(self, workflow_id: str, place: Place) -> Seen:
        """Look at a workflow; raises RPCError."""
        ...

    async def open_pods(self) -> set[str] | None:
        """Return the workflows of this node's pods that visibility has as open; None if it does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison does with its result."""

    journal: Journal
    take_over: Callable[[str, str], Awaitable[None]]
    """(workflow id, why): leads a pod from the node's record; nothing happens if it is led already."""
    known_as: Callable[[str], None]
    """Takes the id of the namespace in which states are kept from now on."""
    settle: Callable[[bool], None]
    """Takes whether it is settled which pods Temporal leads."""


class Comparing:
    """Compares once for each connection."""

    def __init__(self, compared: Compared, *, within: timedelta = WITHIN) -> None:
        self._deps, self._within = compared, within

    async def compare(self, temporal: Temporal) -> None:
        """Compare; returns once it is settled."""
        self._deps.settle(False)  # noqa: FBT003 - the one thing that it takes
        try:
            await self._compare(temporal)
        except Exception as error:  # noqa: BLE001 - nothing may hold back the node's pods for ever
            _log.exception("could not compare this node's pods with Temporal", err=str(error))
        self._deps.settle(True)  # noqa: FBT003

    async def _compare(self, temporal: Temporal) -> None:
        deps = self._deps
        places = {one: place for one, place in deps.journal.places().items() if place.run_id and not is_node(one)}
        judged = dict.fromkeys(places, Judged(Standing.NOT_KNOWN))
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                namespace_id = await temporal.namespace_id()
                deps.known_as(namespace_id)
                await self._judge(temporal, namespace_id, places, judged)
        except TimeoutError:
            pass
        except (RPCError, RuntimeError) as error:  # the SDK's core raises the second one if it cannot connect
            _log.warning("Temporal does not say what it has of this node's pods", err=str(error))
        for workflow_id, one in judged.items():
            if one.standing is Standing.LOST:
                _log.warning("the node knows more of a pod than Temporal", workflow=workflow_id, reason=one.why)
                await deps.take_over(workflow_id, one.why)
        closed = {one for one, found in judged.items() if found.standing is Standing.CLOSED}
        await self._forget(closed, temporal)
        counts = Counter(one.standing.value for one in judged.values())
        log = _log.warning if counts[Standing.NOT_KNOWN] else _log.info
        log("compared this node's pods with Temporal", **{name.replace(" ", "_"): counts[name] for name in Standing})

    async def _judge(
        self, temporal: Temporal, namespace_id: str, places: Mapping[str, Place], judged: dict[str, Judged]
    ) -> None:
        """Judge each workflow, some at once; what was judged stays if this is cancelled."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(workflow_id: str, place: Place) -> None:
            judged[workflow_id] = judge(place, namespace_id, None)
            if judged[workflow_id].standing is not Standing.NOT_KNOWN:
                return
            async with turns:
                try:
                    seen = await temporal.see(workflow_id, place)
                except (RPCError, RuntimeError) as error:
                    _log.warning("Temporal does not say what it has of a pod", workflow=workflow_id, err=str(error))
                    return
                judged[workflow_id] = judge(place, namespace_id, seen)

        async with asyncio.TaskGroup() as group:
            for workflow_id, place in places.items():
                group.create_task(one(workflow_id, place))

    async def _forget(self, closed: set[str], temporal: Temporal) -> None:
        """Forget what is closed; with a list of all that is open, also what cannot be read and is not among it."""
        for workflow_id in closed:
            self._deps.journal.forget(workflow_id)
        if (listed := await temporal.open_pods()) is not None:
            await asyncio.to_thread(self._deps.journal.forget_others, listed | set(self._deps.journal.workflows()))
