"""Decides in the worker who leads each pod: its workflow in Temporal, or a stand-in in this process.

While Temporal is away (`away.py`), the stand-in leads every pod whose last decision is known. Whoever takes the lead raises the epoch
of the pod's ticket first, so that what the other one has begun does nothing more (`worker/tickets/`). So a switch
is safe at any moment, also if Temporal was not away at all. When Temporal answers again, each pod is handed back, and its
history gets what happened.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, Final, Protocol

import structlog

from proto.temporal import names
from proto.temporal.node import NodeStart
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodOutcome, PodStart
from worker.delivery.lead import Answer, Leads, LeadUnavailable, Message, PodLead, Reply
from worker.stand_in.away import AWAY_SECONDS, AttentiveClock, Due, Verdict, judge
from worker.stand_in.dues import Dues
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Kept, Story
from worker.stand_in.stand_in import Means, NotLed, RequestRefused, StandIn
from worker.tickets.tickets import Tickets

STEP: Final = 0.5
"""Seconds between two looks."""
FROZEN_WITHIN: Final = timedelta(seconds=5)
"""How long a pod waits for the end of what Temporal cannot attach to, before it goes on and is handed back later."""
SWITCHED_WITHIN: Final = 5.0
"""Seconds for which a message waits for a switch that is under way."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 10.0
"""Seconds between two tries to hand pods back."""
AT_ONCE: Final = 8
"""Pods that are handed back side by side."""

_log: Final = structlog.get_logger(__name__)


class HandedOver(StrEnum):
    """What became of a hand-back."""

    TAKEN = "taken"
    REFUSED = "refused"
    """Temporal works, but not for this workflow: it is paused, for example."""
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Returned:
    """A pod that is handed back."""

    workflow_id: str
    start: PodStart
    """Its state, with the ticket of the next run."""
    outcome: PodOutcome | None
    """None while it lives."""
    since: datetime
    story: Story


class HandBack(Protocol):
    """Temporal, to which pods are handed back (`handing_back.py`)."""

    async def is_there(self) -> bool:
        """Report whether Temporal answers."""
        ...

    async def hand_back(self, pod: Returned) -> HandedOver:
        """Tell the pod's workflow its story and its state; returns once the workflow leads the pod."""
        ...


@dataclass(slots=True)
class _Led:
    """A pod that this process leads."""

    stand_in: StandIn
    epoch: int
    since: datetime
    task: "asyncio.Task[PodOutcome | None]"
    why: str
    is_switching: bool = False
    """It is being handed back."""
    switched: asyncio.Event = field(default_factory=asyncio.Event)


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
    changed: Callable[[Verdict, int], None] = lambda _verdict, _led: None
    """Called after each look: what is away, and how many pods this process leads."""


class Leading:
    """The leads of one node; use it from one event loop."""

    def __init__(self, parts: Parts, *, worker_id: str, away_seconds: float = AWAY_SECONDS) -> None:
        """Take `worker_id`, which no other worker process of this node has."""
        self._parts, self._worker_id, self._away_seconds = parts, worker_id, away_seconds
        self._clock = AttentiveClock(monotonic())
        self._verdict = Verdict()
        self._hosted_at = 0.0
        """When the SDK's worker ran last."""
        self._led: dict[str, _Led] = {}
        self._epochs: dict[str, int] = {}
        """Of pods that were led here and were handed back."""
        self._version = 0
        self._turned = asyncio.Event()
        self._pause, self._next_try = FIRST_PAUSE, 0.0
        self._locks: dict[str, asyncio.Lock] = {}

    # --- the watch

    async def watch(self) -> None:
        """Look who leads, until cancelled; the stand-ins then end, and the next worker goes on from the journal."""
        try:
            while True:
                await self._look()
                await self._hand_back_if_due()
                await asyncio.sleep(STEP)
        finally:
            for led in self._led.values():
                led.task.cancel()
            await asyncio.gather(*(led.task for led in self._led.values()), return_exceptions=True)

    async def resume(self, kept: Iterable[Kept]) -> None:
        """Lead the pods on that an earlier worker led."""
        for one in kept:
            if isinstance(one.start, PodStart) and not one.place.run_id:
                await self._take_over(one.workflow_id, "an earlier worker led it", one)

    async def _look(self) -> None:
        now = self._clock.step(monotonic())
        due, committed = self._parts.dues.look(self._parts.unsettled(), now, datetime.now(UTC))
        if self._parts.is_hosted():
            self._hosted_at = now
        else:
            due += [Due(one, "the connection", self._hosted_at) for one in self._parts.journal.workflows()]
        before, self._verdict = self._verdict, judge(due, committed, now, self._away_seconds)
        if self._verdict.away_since is not None and before.away_since is None:
            _log.warning("Temporal is away: this node leads its pods itself", reason=self._verdict.why)
        why = dict(self._verdict.alone)
        if self._verdict.away_since is not None:
            why |= dict.fromkeys(self._parts.journal.workflows(), self._verdict.why)
        for workflow_id, reason in why.items():
            if workflow_id not in self._led:
                await self._take_over(workflow_id, reason)
        self._parts.changed(self._verdict, len(self._led))

    # --- taking over

    async def _take_over(self, workflow_id: str, why: str, kept: Kept | None = None) -> None:
        """Lead a pod from its last decision on; nothing happens if none is known, or if the disk takes no ticket."""
        async with self._lock(workflow_id):
            if workflow_id in self._led:
                return
            try:
                ticket = await asyncio.to_thread(self._parts.tickets.raise_epoch, workflow_id)
            except OSError as error:
                _log.error("cannot lead a pod without Temporal", workflow=workflow_id, err=str(error))
                return
            start = kept.start if kept else self._parts.journal.newest(workflow_id)
            if isinstance(start, PodStart):
                self._lead(workflow_id, replace(start, ticket=ticket), why, kept)

    def _lead(self, workflow_id: str, start: PodStart, why: str, kept: Kept | None = None) -> None:
        epoch = start.ticket.epoch
        tail = [one.entry for one in kept.tail.entries] if kept else ()
        stand_in = StandIn(start, self._parts.means(workflow_id, epoch), tail)
        task = asyncio.create_task(stand_in.lead(), name=f"lead of {workflow_id}")
        self._led[workflow_id] = _Led(stand_in, epoch, datetime.now(UTC), task, why)
        self._parts.dues.forget(workflow_id)
        self._turn()
        _log.info("leads a pod without Temporal", workflow=workflow_id, reason=why)

    # --- handing back

    async def _hand_back_if_due(self) -> None:
        if not self._led or monotonic() < self._next_try:
            return
        if not await self._parts.temporal.is_there():
            self._postpone()
            return
        first, *others = sorted(self._led)  # one alone shows whether Temporal works
        if await self._hand_back(first) is HandedOver.AWAY:
            self._postpone()
            return
        self._pause = FIRST_PAUSE
        turns = asyncio.Semaphore(AT_ONCE)

        async def hand_back(workflow_id: str) -> None:
            async with turns:
                await self._hand_back(workflow_id)

        async with asyncio.TaskGroup() as group:
            for one in others:
                group.create_task(hand_back(one))
        if self._led:
            self._postpone()
        elif self._verdict.away_since is not None:
            self._verdict = Verdict()

    def _postpone(self) -> None:
        self._next_try = monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _hand_back(self, workflow_id: str) -> HandedOver:
        """Hand one pod back; it is led on here if Temporal does not take it."""
        async with self._lock(workflow_id):
            led = self._led[workflow_id]
            led.is_switching = True
            try:
                result = await self._try_to_hand_back(workflow_id, led)
            except Exception as error:  # noqa: BLE001 - other pods must not wait
                _log.exception("could not hand a pod back", workflow=workflow_id, err=str(error))
                result = HandedOver.REFUSED
            finally:
                led.is_switching = False
                led.switched.set()
                led.switched = asyncio.Event()
            return result

    async def _try_to_hand_back(self, workflow_id: str, led: _Led) -> HandedOver:
        with contextlib.suppress(NotLed):
            if not led.task.done() and not await led.stand_in.freeze(FROZEN_WITHIN):
                return HandedOver.REFUSED
        outcome = led.task.result() if led.task.done() else None
        start = led.stand_in.hand_over()
        await asyncio.wait({led.task})
        ticket = await asyncio.to_thread(self._parts.tickets.raise_epoch, workflow_id)
        start = replace(start, ticket=ticket)
        story = await asyncio.to_thread(self._parts.journal.entries, workflow_id)
        result = HandedOver.REFUSED
        try:
            result = await self._parts.temporal.hand_back(Returned(workflow_id, start, outcome, led.since, story))
        finally:
            if result is HandedOver.TAKEN:
                await self._handed_back(workflow_id, story, outcome, ticket.epoch)
            else:
                raised = await asyncio.to_thread(self._parts.tickets.raise_epoch, workflow_id)
                self._led.pop(workflow_id)
                self._lead(workflow_id, replace(start, ticket=raised), led.why)
                self._led[workflow_id].since = led.since
        return result

    async def _handed_back(self, workflow_id: str, story: Story, outcome: PodOutcome | None, epoch: int) -> None:
        del self._led[workflow_id]
        self._epochs[workflow_id] = epoch
        self._turn()
        if outcome is not None:
            self._parts.journal.forget(workflow_id, outcome)
        with contextlib.suppress(OSError):
            last = max((one.position for one in story.entries), default=0)
            await asyncio.to_thread(self._parts.journal.end_story, workflow_id, last)
        _log.info("handed a pod back to Temporal", workflow=workflow_id, entries=len(story.entries))

    # --- messages to pods: what `worker.delivery` asks

    async def deliver(self, message: Message) -> Answer:
        """Take a signal to a pod that this process leads."""
        led = await self._leader(message)
        if led is None:
            return self._not_led(message.workflow_id)
        await self._to(led.stand_in.deliver(message.name, message.value))
        return Answer.TAKEN

    async def start(self, start: PodStart | NodeStart, said: Message) -> Answer:
        """Start a pod while Temporal is away, or tell one that is led here its first signal."""
        led = await self._leader(said)
        if led is None and self._verdict.away_since is not None and isinstance(start, PodStart):
            await self._begin(said.workflow_id, start)
            led = self._led.get(said.workflow_id)
        if led is None:
            return self._not_led(said.workflow_id)
        await self._to(led.stand_in.deliver(said.name, said.value))
        return Answer.TAKEN

    async def update(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002 - the Protocol's signature
        """Do what an operator asks of a pod that this process leads."""
        led = await self._leader(asked)
        if led is None:
            return Reply(self._not_led(asked.workflow_id))
        return await self._reply(led.stand_in.update(asked.name, asked.value))

    async def query(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002 - the Protocol's signature
        """Answer a query about a pod that this process leads."""
        led = await self._leader(asked)
        if led is None:
            return Reply(self._not_led(asked.workflow_id))
        match asked.name:
            case names.EXPLAIN:
                return Reply(Answer.TAKEN, led.stand_in.explain())
            case names.POD_STATUS:
                return Reply(Answer.TAKEN, led.stand_in.pod_status())
            case _:
                raise LeadUnavailable(f"no query {asked.name[:60]}")

    async def lead(self, workflow_id: str) -> Answer:
        """Return what a message to this pod would be answered."""
        return Answer.TAKEN if workflow_id in self._led else self._not_led(workflow_id)

    async def leads(self, known: str) -> Leads:
        """Wait until the version is not `known`, and return who leads which pod."""
        while known == self._said_version():
            await self._turned.wait()
        led = {one: PodLead(by_worker=True, epoch=pod.epoch) for one, pod in self._led.items()}
        return Leads(self._said_version(), {one: PodLead(epoch=at) for one, at in self._epochs.items()} | led)

    # --- parts

    async def _begin(self, workflow_id: str, start: PodStart) -> None:
        async with self._lock(workflow_id):
            if workflow_id in self._led:
                return
            ticket = await asyncio.to_thread(self._parts.tickets.draw, workflow_id)
            self._lead(workflow_id, replace(start, ticket=ticket), self._verdict.why)

    async def _leader(self, message: Message) -> _Led | None:
        """Return the lead of a message's pod once no switch is under way; None if Temporal leads it."""
        if message.due_for > 0 and message.workflow_id not in self._led:
            self._parts.dues.message(message.workflow_id, message.name, message.due_for, self._clock.now)
            await self._look()
        led = self._led.get(message.workflow_id)
        if led is not None and led.is_switching:
            try:
                async with asyncio.timeout(SWITCHED_WITHIN):
                    await led.switched.wait()
            except TimeoutError:
                raise LeadUnavailable("the pod is being handed back to Temporal") from None
        return self._led.get(message.workflow_id)

    def _not_led(self, workflow_id: str) -> Answer:
        known = self._parts.journal.newest(workflow_id) is not None
        return Answer.TEMPORAL_LEADS if known else Answer.UNKNOWN_POD

    async def _to(self, telling: Awaitable[None]) -> None:
        try:
            await telling
        except NotLed:
            raise LeadUnavailable("the pod has just been handed back, or has ended") from None

    async def _reply(self, asking: Awaitable[Any]) -> Reply:
        try:
            return Reply(Answer.TAKEN, await asking)
        except RequestRefused as refused:
            return Reply(Answer.TAKEN, refusal=Rejection(refused.refusal.reason, refused.refusal.message))
        except NotLed:
            raise LeadUnavailable("the pod has just been handed back, or has ended") from None

    def _lock(self, workflow_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workflow_id, asyncio.Lock())

    def _said_version(self) -> str:
        return f"{self._worker_id}/{self._version}"

    def _turn(self) -> None:
        self._version += 1
        self._turned.set()
        self._turned = asyncio.Event()
