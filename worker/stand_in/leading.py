"""Decides in the worker who leads each pod: its workflow in Temporal, or a stand-in in this process.

While Temporal is away (`away.py`), the stand-in leads every pod whose last decision is known. Whoever takes the lead raises the epoch
of the pod's ticket first, so that what the other one has begun does nothing more (`worker/tickets/`). So a switch
is safe at any moment, also if Temporal was not away at all. When Temporal answers again, each pod is handed back, and its
history gets what happened. `answers.py` takes the messages to the pods that are led here.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import structlog

from proto.temporal.away import StoryEntry
from proto.temporal.pod import PodOutcome, PodStart
from worker.delivery.lead import Leads, PodLead
from worker.stand_in.away import AWAY_SECONDS, AttentiveClock, Due, Verdict, judge
from worker.stand_in.connection import Connection, ago
from worker.stand_in.dues import Dues
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Kept, Story
from worker.stand_in.loop_lead import Means, NotLed
from worker.stand_in.returned import HandBack, HandedOver, Returned, to_be_read_again
from worker.stand_in.stand_in import StandIn
from worker.telemetry.workflow_engine import WorkflowEngine
from worker.tickets.tickets import Tickets

STEP: Final = 0.5
"""Seconds between two looks."""
FROZEN_WITHIN: Final = timedelta(seconds=5)
"""How long a pod waits for the end of what Temporal cannot attach to, before it goes on and is handed back later."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 10.0
"""Seconds between two tries to hand pods back."""
AT_ONCE: Final = 8
"""Pods that are handed back side by side."""

_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class Led:
    """A pod that this process leads."""

    stand_in: StandIn
    epoch: int
    since: datetime
    why: str
    task: "asyncio.Task[PodOutcome | None]"
    is_switching: bool = False
    """It is being handed back."""
    switched: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once that has succeeded or failed."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What pods are led with."""

    dues: Dues
    journal: Journal
    tickets: Tickets
    means: Callable[[str, int], Means]
    """(workflow id, epoch)."""
    temporal: HandBack
    unsettled: Callable[[], Iterable[tuple[str, str]]]
    """Workflow and key of each answer that no history has."""
    is_hosted: Callable[[], bool]
    """Whether the SDK's worker runs: without it, everything of every pod is due."""


class Leading:
    """The leads of one node's pods; use it from one event loop."""

    def __init__(self, parts: Parts, *, worker_id: str, away_seconds: float = AWAY_SECONDS) -> None:
        """Take `worker_id`, which no other worker process of this node has."""
        self._parts, self._worker_id, self._away_seconds = parts, worker_id, away_seconds
        self.led: dict[str, Led] = {}
        """By workflow id."""
        self.away: Verdict | None = None
        """Why Temporal is away; None: it is not, as far as this node can tell."""
        self._away_at: datetime | None = None
        """Since when it is."""
        self._clock = AttentiveClock(monotonic())
        self._connection = Connection(away_seconds)
        self._handed_back: dict[str, PodLead] = {}
        self._version = 0
        self._turned = asyncio.Event()
        self._pause, self._next_try = FIRST_PAUSE, 0.0
        self._locks: dict[str, asyncio.Lock] = {}

    # --- who leads

    @property
    def version(self) -> str:
        """Return another text after each change of a lead."""
        return f"{self._worker_id}/{self._version}"

    def leads(self) -> Leads:
        """Return who leads which pod."""
        by_worker = {one: PodLead(by_worker=True, epoch=led.epoch) for one, led in self.led.items()}
        return Leads(self.version, self._handed_back | by_worker)

    async def turned(self) -> None:
        """Wait for the next change of a lead."""
        await self._turned.wait()

    def engine(self) -> WorkflowEngine | None:
        """Return what to tell of Temporal; None: this process cannot tell yet. Any thread may call it."""
        away, led = self.away, [*self.led.values()]
        if away is not None:
            return WorkflowEngine(self._away_at, away.why, len(led))
        return self._connection.engine(led[0].why if led else "", len(led))

    def knows(self, workflow_id: str) -> bool:
        """Report whether the state of this workflow is known."""
        return workflow_id in self._parts.journal.workflows()

    async def due(self, workflow_id: str, name: str, due_for: float) -> None:
        """Take a message that Temporal has not taken for so many seconds, and look at once who is to lead the pod."""
        self._parts.dues.message(workflow_id, name, due_for, self._clock.now)
        await self._look()

    async def begin(self, workflow_id: str, start: PodStart) -> Led | None:
        """Lead a pod that begins while Temporal is away; None if the disk takes no ticket."""
        async with self._locked(workflow_id):
            if workflow_id not in self.led:
                try:
                    ticket = await asyncio.to_thread(self._parts.tickets.draw, workflow_id)
                except OSError as error:
                    _log.error("cannot start a pod without Temporal", workflow=workflow_id, err=str(error))
                    return None
                why = self.away.why if self.away else ""
                self._lead(workflow_id, replace(start, ticket=ticket), datetime.now(UTC), why=why)
        return self.led.get(workflow_id)

    # --- the watch

    async def watch(self, recovered: Iterable[Kept]) -> None:
        """Lead the pods on that an earlier worker led, then look who leads until cancelled.

        The stand-ins then end, and the next worker goes on from the journal.
        """
        try:
            for one in recovered:
                if isinstance(one.start, PodStart) and not one.place.run_id:
                    await self._take_over(one.workflow_id, "an earlier worker led it", one)
            while True:
                await self._look()
                await self._hand_back_if_due()
                await asyncio.sleep(STEP)
        finally:
            tasks = [led.task for led in self.led.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        now, known = self._clock.step(monotonic()), self._parts.journal.workflows()
        due, committed = self._parts.dues.look(self._parts.unsettled(), now, datetime.now(UTC))
        if not self._connection.look(self._parts.is_hosted(), now):
            due += [Due(one, "the connection", self._connection.worked_at) for one in known]
        verdict = judge(due, committed, now, self._away_seconds)
        if verdict.away_since is not None and self.away is None:
            _log.warning("Temporal is away: this node leads its pods itself", reason=verdict.why)
            self.away, self._away_at = verdict, ago(now - verdict.away_since)
        why: Mapping[str, str] = dict.fromkeys(known, self.away.why) if self.away else dict(verdict.alone)
        for workflow_id in why.keys() - self.led.keys():
            await self._take_over(workflow_id, why[workflow_id])

    # --- taking over

    async def _take_over(self, workflow_id: str, why: str, kept: Kept | None = None) -> None:
        """Lead a pod from its last decision on; nothing happens if none is known, or if the disk takes no ticket."""
        async with self._locked(workflow_id):
            if workflow_id in self.led:
                return
            try:
                ticket = await asyncio.to_thread(self._parts.tickets.raise_epoch, workflow_id)
            except OSError as error:
                _log.error("cannot lead a pod without Temporal", workflow=workflow_id, err=str(error))
                return
            start = kept.start if kept else self._parts.journal.newest(workflow_id)
            if isinstance(start, PodStart):
                tail = [one.entry for one in kept.tail.entries] if kept else ()
                self._lead(workflow_id, replace(start, ticket=ticket), datetime.now(UTC), why=why, tail=tail)
                _log.info("leads a pod without Temporal", workflow=workflow_id, reason=why)

    def _lead(
        self, workflow_id: str, start: PodStart, since: datetime, *, why: str, tail: Iterable[StoryEntry] = ()
    ) -> None:
        epoch = start.ticket.epoch
        stand_in = StandIn(start, self._parts.means(workflow_id, epoch), tail)
        task = asyncio.create_task(stand_in.lead(), name=f"lead of {workflow_id}")
        self.led[workflow_id] = Led(stand_in, epoch, since, why, task)
        self._parts.dues.forget(workflow_id)
        self._turn()

    # --- handing back

    async def _hand_back_if_due(self) -> None:
        if not (self.led or self.away) or monotonic() < self._next_try:
            return
        if not (self._parts.is_hosted() and await self._parts.temporal.is_there()):
            self._postpone()
            return
        first, *others = sorted(self.led) or ("",)  # one alone shows whether Temporal works
        if first and await self._hand_back(first) is HandedOver.AWAY:
            self._postpone()
            return
        if self.away is not None:
            _log.info("Temporal is back", pods=len(self.led))
        self.away, self._pause = None, FIRST_PAUSE
        self._parts.dues.begun()
        turns = asyncio.Semaphore(AT_ONCE)

        async def hand_back(workflow_id: str) -> None:
            async with turns:
                await self._hand_back(workflow_id)

        async with asyncio.TaskGroup() as group:
            for one in others:
                group.create_task(hand_back(one))
        if self.led:
            self._postpone()

    def _postpone(self) -> None:
        self._next_try = monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _hand_back(self, workflow_id: str) -> HandedOver:
        """Hand one pod back; it is led on here if Temporal does not take it."""
        async with self._locked(workflow_id):
            led = self.led[workflow_id]
            led.is_switching = True
            try:
                if led.task.done() or await self._frozen(led):
                    return await self._return(workflow_id, led)
            except Exception as error:  # noqa: BLE001 - other pods must not wait
                _log.exception("could not hand a pod back", workflow=workflow_id, err=str(error))
            finally:
                led.is_switching = False
                led.switched.set()
                led.switched = asyncio.Event()
            return HandedOver.REFUSED

    async def _frozen(self, led: Led) -> bool:
        try:
            return await led.stand_in.freeze(FROZEN_WITHIN)
        except NotLed:
            return True

    async def _return(self, workflow_id: str, led: Led) -> HandedOver:
        with contextlib.suppress(NotLed):
            led.stand_in.hand_over()
        outcome = await led.task
        ticket = await asyncio.to_thread(self._parts.tickets.raise_epoch, workflow_id)
        start = replace(to_be_read_again(led.stand_in.state()), ticket=ticket)
        story = await asyncio.to_thread(self._parts.journal.entries, workflow_id)
        result = HandedOver.REFUSED
        try:
            result = await self._parts.temporal.hand_back(Returned(workflow_id, start, outcome, led.since, story))
        finally:
            if result is not HandedOver.TAKEN:
                raised = await asyncio.to_thread(self._parts.tickets.raise_epoch, workflow_id)
                self._lead(workflow_id, replace(start, ticket=raised), led.since, why=led.why)
        if result is HandedOver.TAKEN:
            del self.led[workflow_id]
            self._handed_back[workflow_id] = PodLead(epoch=ticket.epoch)
            self._turn()
            await self._end_story(workflow_id, story, outcome)
        return result

    async def _end_story(self, workflow_id: str, story: Story, outcome: PodOutcome | None) -> None:
        _log.info("handed a pod back to Temporal", workflow=workflow_id, entries=len(story.entries))
        if outcome is not None:
            self._parts.journal.forget(workflow_id, outcome)
            self._handed_back.pop(workflow_id, None)
            return
        with contextlib.suppress(OSError):
            last = max((one.position for one in story.entries), default=0)
            await asyncio.to_thread(self._parts.journal.end_story, workflow_id, last)

    # --- parts

    @contextlib.asynccontextmanager
    async def _locked(self, workflow_id: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(workflow_id, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(workflow_id, None)

    def _turn(self) -> None:
        self._version += 1
        self._turned.set()
        self._turned = asyncio.Event()
