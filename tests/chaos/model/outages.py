"""Takes Temporal from a pod at one moment of its life, and writes the history that its workflow would have.

The process leads the pod on the model throughout. What happens before the outage and after it is written as events of two runs, what
happens in it as the story that the node tells. A workflow task that was not committed is left out of the first run.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from temporalio.api.common.v1 import Payloads

from proto.temporal import names
from proto.temporal.away import EntryKind, StoryEntry, WhileAway
from proto.temporal.pod import PodStart
from tests.chaos.model.halting_world import Boundary
from tests.chaos.model.lives import Course, Leading
from tests.chaos.model.shapes import Shape
from tests.worker.history.story_recorder import Recorder
from tests.worker.stand_in.switches import handed_over
from tests.worker.stand_in.world import BEGAN, copied
from worker.history.facts import READS
from worker.history.story import build_story
from worker.stand_in.loop_lead import NotLed
from worker.stand_in.performing import CONVERTER

LASTS: Final = 0.5
"""Seconds of an outage."""


class Lost(StrEnum):
    """What the history lacks of the time before the outage, or has beyond what the node knew."""

    NOTHING = "nothing"
    LAST_TASK = "the last workflow task was not committed"
    LATE_TASK = "the last workflow task was committed when Temporal was back"
    LAST_DECISION = "an answer was committed, and no workflow task began after it"


@dataclass(frozen=True, slots=True)
class Outage:
    """When Temporal goes away."""

    shape: Shape
    lost: Lost
    boundary: Boundary | None = None
    """Where in a call; None: after an answer."""
    answer: int = -1
    """The number of that answer."""


class LivingThrough(Leading):
    """Leads a pod through an outage."""

    def __init__(self, outage: Outage) -> None:
        super().__init__(Course(outage.shape, boundary=outage.boundary))
        self.outage = outage
        if outage.answer >= 0:
            self.world.in_thread = self._written

    async def _written(self, write: Any, *about: Any) -> Any:
        """Write to the journal; the loop gets the answer of the outage's number only when another one leads."""
        written = write(*about)
        if not self.world.reached.is_set() and len(answers(self.world.journal.stories)) > self.outage.answer:
            self.world.reached.set()
            await self.world.go_on.wait()
        return written

    async def _strike(self) -> None:
        world = self.world
        await world.reached.wait()
        await self._change(handed_over)
        world.go_on.set()
        await asyncio.sleep(LASTS)
        try:
            if world.led and await world.led.freeze(timedelta(minutes=1)):
                await self._change(handed_over)
        except NotLed:
            return  # the pod has ended

    def texts(self) -> list[str]:
        """Return what the pod's history tells."""
        recorder = Recorder(now=BEGAN)
        for number, (start, entries) in enumerate(self._leads()):
            if number % 2:
                since = entries[0].at
                recorder.now = max(recorder.now, entries[-1].at)
                first = self.world.led_from[number][1] + 1
                recorder.signal(names.WHILE_AWAY, WhileAway(number + 1, first, entries, 0, since, recorder.now))
                continue
            recorder.begin(start, "the run before" if number else "")
            committed = len(entries) if number or self.outage.lost is Lost.NOTHING else last_fact(entries)
            history = RunHistory(recorder)
            for one in entries[:committed]:
                history.write(one)
            if self.outage.lost is Lost.LATE_TASK:
                for one in entries[committed:]:
                    history.write(replace(one, at=one.at + timedelta(seconds=LASTS)))
        return [line.text for line in build_story([recorder.events]).lines]

    def _leads(self) -> Iterator[tuple[PodStart, tuple[StoryEntry, ...]]]:
        stories, led = self.world.journal.stories, self.world.led_from
        ends = [first for _, first in led[1:]] + [len(stories)]
        for (start, first), end in zip(led, ends, strict=True):
            yield start, tuple(stories[first:end])


class RunHistory:
    """Writes what happened to a pod as events of one run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._asked: dict[str, int] = {}

    def write(self, one: StoryEntry) -> None:
        """Write an entry as an event."""
        recorder = self._recorder
        recorder.now = max(recorder.now, one.at)
        match one.kind:
            case EntryKind.SCHEDULED:
                kind = {"name": one.name}
                asked = recorder.event(
                    "ACTIVITY_TASK_SCHEDULED", activity_id=one.key, activity_type=kind, input=payloads(one.value)
                )
                self._asked[one.key] = asked.event_id
            case EntryKind.COMPLETED if one.name in READS:
                details = {"data": payloads({"activity_type": one.name}), "result": payloads(one.value)}
                recorder.event("MARKER_RECORDED", details=details)
            case EntryKind.COMPLETED:
                recorder.event(
                    "ACTIVITY_TASK_COMPLETED", scheduled_event_id=self._asked.pop(one.key), result=payloads(one.value)
                )
            case EntryKind.SIGNALLED:
                recorder.signal(one.name, copied(one.value))


def answers(entries: Sequence[StoryEntry]) -> list[StoryEntry]:
    """List the answers of activities: reads have none of their own, they are part of a workflow task."""
    return [one for one in entries if one.kind is EntryKind.COMPLETED and one.name not in READS]


def last_fact(entries: Sequence[StoryEntry]) -> int:
    """Return how many entries there are up to the last one that did not come from a workflow task."""
    told = {id(one) for one in answers(entries)}
    facts = [
        number
        for number, one in enumerate(entries, 1)
        if id(one) in told or one.kind in {EntryKind.SIGNALLED, EntryKind.FAILED}
    ]
    return facts[-1] if facts else 0


def payloads(value: Any) -> Payloads:
    """Write a value as the converter does."""
    return Payloads(payloads=CONVERTER.to_payloads([value]))
