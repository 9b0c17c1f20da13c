"""Decides in the worker who leads each pod: its workflow in Temporal, or a stand-in in this process.

While Temporal is away (`away.py`), the stand-in leads every pod whose last decision is known. Whoever takes the lead raises the epoch
of the pod's ticket first, so that what the other one has begun does nothing more (`worker/tickets/`). So a switch
is safe at any moment, also if Temporal was not away at all. When Temporal answers again, each pod is handed back, and its
history gets what happened. `answers.py` takes the messages to the pods that are led here.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import structlog

from proto.temporal.pod import PodOutcome
from worker.delivery.lead import PodLead
from worker.stand_in.away import AttentiveClock, Due, Limits, Verdict, judge
from worker.stand_in.connection import Connection, ago
from worker.stand_in.hand_back.returned import HandedOver, Returned, to_be_read_again
from worker.stand_in.hand_back.returns import Trouble, returned
from worker.stand_in.journal.kept import Kept, Start, Story, is_node
from worker.stand_in.led_pods import TRIED_AGAIN, Led, LedPods, Parts, subject
from worker.stand_in.loop_lead import NotLed
from worker.telemetry.workflow_engine import WorkflowEngine
from worker.tickets.held import Verdict as TicketVerdict

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


class Leading(LedPods):
    """Who leads the pods of one node; use it from one event loop."""

    def __init__(self, parts: Parts, *, worker_id: str, limits: Limits) -> None:
        """Take `worker_id`, which no other worker process of this node has."""
        super().__init__(parts, worker_id=worker_id)
        self._limits = limits
        self.away: Verdict | None = None
        """Why Temporal is away; None: it is not, as far as this node can tell."""
        self._away_at: datetime | None = None
        """Since when it is, or another machine has this node's name."""
        self._taken_by, self._unsure = "", False
        self._clock = AttentiveClock(monotonic())
        self._connection = Connection(limits.away)
        self._pause, self._next_try = FIRST_PAUSE, 0.0
        self._last_first = ""
        """The pod that has shown alone whether Temporal works, the last time."""

    def engine(self) -> WorkflowEngine | None:
        """Return what to tell of Temporal; None: this process cannot tell yet. Any thread may call it."""
        away, kept = self.away, self.kept()
        shown = kept or [*self.led]
        if self._taken_by:
            return WorkflowEngine(self._away_at, self._taken_by, name_taken=True)
        if away is not None:
            return WorkflowEngine(self._away_at, away.why, self.pods(), pods_kept=len(kept))
        return self._connection.engine(self.because(shown[0]) if shown else "", self.pods(), len(kept))

    async def due(self, workflow_id: str, name: str, due_for: float) -> None:
        """Take a message that Temporal has not taken for so many seconds, and look at once who is to lead the pod."""
        self.parts.dues.message(workflow_id, name, due_for, self._clock.now)
        await self._look()

    async def begin(self, workflow_id: str, start: Start) -> Led | None:
        """Lead what begins while Temporal is away; None if it cannot be led."""
        await self.lead_new(workflow_id, start, self.away.why if self.away else "")
        return self.led.get(workflow_id)

    # --- the watch

    async def watch(self, recovered: Iterable[Kept]) -> None:
        """Lead the pods on that an earlier worker led, then look who leads until cancelled.

        The stand-ins then end; the next watch, or the next worker, goes on from the journal.
        """
        try:
            await self.lead_interrupted()
            for one in recovered:
                if not one.place.run_id or await asyncio.to_thread(self._is_parked, one):
                    await self.take_over(one.workflow_id, "an earlier worker led it", one)
            while True:
                await self._look()
                await self._hand_back_if_due()
                await asyncio.sleep(STEP)
        finally:
            await self.interrupt()

    def _is_parked(self, kept: Kept) -> bool:
        """Report whether a worker died after it had raised the epoch, and before it had led: then nobody else would act for the pod."""
        held = self.parts.tickets.held(kept.workflow_id)
        return held is not None and held.verdict(kept.start.ticket, kept.place.run_id) is TicketVerdict.PARKED

    async def _look(self) -> None:
        now = self._clock.step(monotonic())
        if await self._stands_down() or self.parts.is_stopping():
            return
        known = self.parts.journal.workflows()
        due, committed = self.parts.dues.look(self.parts.unsettled(), now, datetime.now(UTC))
        if not self._connection.look(now, is_hosted=self.parts.is_hosted(), is_replaying=self.parts.is_replaying()):
            due += [Due(one, "the connection", self._connection.worked_at) for one in known]
        verdict = judge(due, committed, now, self._limits, polls_since=self._connection.polls_since)
        if verdict.away_since is not None and self.away is None:
            _log.warning("Temporal is away: this node leads its pods itself", reason=verdict.why)
            self.away, self._away_at = verdict, ago(now - verdict.away_since)
        why: Mapping[str, str] = dict.fromkeys(known, self.away.why) if self.away else dict(verdict.alone)
        for workflow_id in why.keys() - self.led.keys():
            await self.take_over(workflow_id, why[workflow_id])
            if workflow_id in self.led and not self.away:
                fails = workflow_id in committed.failing()
                self.keep(workflow_id, Trouble.FAILED_TASKS if fails else Trouble.UNDELIVERED)

    async def _stands_down(self) -> bool:
        """Lead nothing while another machine has this node's name; what was led goes on afterwards. Returns whether it has."""
        why, before = self.parts.name.taken_by, self._taken_by
        if self._unsure != self.parts.name.unsure:
            self._unsure = self.parts.name.unsure
            self.turn()
        if why:
            self._taken_by = why
            if not before:
                self.away, self._away_at = None, ago(0)
            if self.led or not before:
                await self.interrupt()
                self.turn()
        elif before:
            self._taken_by = ""
            self.turn()
            await self.lead_interrupted()
        return bool(why)

    # --- handing back

    async def _hand_back_if_due(self) -> None:
        ready = sorted((one for one in self.led if self.not_before.get(one, 0.0) <= monotonic()), key=_pods_first)
        if not (ready or self.away) or monotonic() < self._next_try:
            return
        if not (self.parts.is_hosted() and await self.parts.temporal.is_there()):
            self._postpone()
            return
        first = next((one for one in ready if one > self._last_first), ready[0] if ready else "")
        self._last_first = first  # each has its turn: whoever keeps one workflow from answering holds up no other
        if first and await self._hand_back(first) is HandedOver.AWAY:
            self._postpone()
            return
        if self.away is not None:
            _log.info("Temporal is back", pods=self.pods())
        self.away, self._pause = None, FIRST_PAUSE
        self.parts.dues.begun()
        turns = asyncio.Semaphore(AT_ONCE)

        async def hand_back(workflow_id: str) -> None:
            async with turns:
                await self._hand_back(workflow_id)

        async with asyncio.TaskGroup() as group:
            for one in ready:
                if one != first:
                    group.create_task(hand_back(one))
        if self.led:
            self._postpone()

    def _postpone(self) -> None:
        self._next_try = monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _hand_back(self, workflow_id: str) -> HandedOver:
        """Hand one pod back; it is led on here if Temporal does not take it."""
        async with self.locked(workflow_id):
            led = self.led[workflow_id]
            led.is_switching = True
            try:
                if led.task.done() or await self._frozen(led):
                    return await self._return(workflow_id, led)
            except Exception as error:  # noqa: BLE001 - other pods must not wait
                _log.exception(f"could not hand {subject(workflow_id)} back", workflow=workflow_id, err=str(error))
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
        ticket = await asyncio.to_thread(self.parts.tickets.raise_epoch, workflow_id)
        start = replace(to_be_read_again(led.stand_in.state()), ticket=ticket)
        story = await asyncio.to_thread(self.parts.journal.entries, workflow_id)
        result = HandedOver.REFUSED
        try:
            replays = workflow_id not in self.replaced
            pod = Returned(workflow_id, start, outcome, led.since, story, replays=replays)
            result = await self.parts.temporal.hand_back(pod)
        finally:
            if result is not HandedOver.TAKEN:
                del self.led[workflow_id]
                await self.lead(workflow_id, lambda: start, why=led.why, since=led.since)
        if result is HandedOver.REFUSED:
            self.not_before[workflow_id] = monotonic() + TRIED_AGAIN
        if result is HandedOver.FAILED:
            self.keep(workflow_id, Trouble.FAILED_TASKS)
        if result is HandedOver.TAKEN:
            del self.led[workflow_id]
            self.replaced.discard(workflow_id)
            self.parts.dues.forget(workflow_id)  # what failed before counts no more
            if stay := self.stays.get(workflow_id):
                self.stays[workflow_id] = returned(stay, monotonic())
            self.handed_back[workflow_id] = PodLead(epoch=ticket.epoch)
            self.turn()
            await self._end_story(workflow_id, story, outcome)
        return result

    async def _end_story(self, workflow_id: str, story: Story, outcome: PodOutcome | None) -> None:
        _log.info(f"handed {subject(workflow_id)} back to Temporal", workflow=workflow_id, entries=len(story.entries))
        if outcome is not None:
            self.parts.journal.forget(workflow_id, outcome)
            self.handed_back.pop(workflow_id, None)
            return
        with contextlib.suppress(OSError):
            last = max((one.position for one in story.entries), default=0)
            await asyncio.to_thread(self.parts.journal.end_story, workflow_id, last)


def _pods_first(workflow_id: str) -> tuple[bool, str]:
    return is_node(workflow_id), workflow_id
