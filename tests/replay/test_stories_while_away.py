"""Does the story of an outage use the same sentences as the history does otherwise?

Each recorded life is cut: what came after the cut is told as entries of an outage instead of as events.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes

from proto.temporal import names
from proto.temporal.away import EntryKind, StoryEntry, WhileAway
from tests.replay.test_stories import HISTORIES
from worker.commands.replay import read_history
from worker.history.failures import describe_failure, failure_message
from worker.history.sentences.story_state import Line
from worker.history.story import build_story

AWAY = timedelta(minutes=2, seconds=10)


def value(payloads: Payloads) -> Any:
    """Read a payload as JSON, as an entry has it."""
    return json.loads(payloads.payloads[0].data or b"null") if payloads.payloads else None


class Entries:
    """Converts events into entries."""

    def __init__(self) -> None:
        self.scheduled: dict[int, tuple[str, str]] = {}
        """Activity and key."""
        self.attempts: dict[int, tuple[int, str]] = {}
        self.updates: dict[str, str] = {}

    def of(self, event: HistoryEvent) -> Iterator[StoryEntry]:
        """Convert an event; most have no entry."""
        at = event.event_time.ToDatetime(tzinfo=UTC)
        which = event.WhichOneof("attributes")
        kind = str(which).removesuffix("_event_attributes")
        convert = getattr(self, f"_{kind}", None)
        if convert is not None:
            yield from convert(event, getattr(event, str(which)), partial(StoryEntry, at))

    def ended(self, scheduled: int, kind: EntryKind, entry: Any, **more: Any) -> StoryEntry:
        """Write the entry of an ended activity."""
        name, key = self.scheduled[scheduled]
        attempts, last_failure = self.attempts.get(scheduled, (1, ""))
        written: StoryEntry = entry(kind, name, key, attempts=attempts, last_failure=last_failure, **more)
        return written

    def _activity_task_scheduled(self, event: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        self.scheduled[event.event_id] = said.activity_type.name, said.activity_id
        yield entry(EntryKind.SCHEDULED, said.activity_type.name, said.activity_id, value(said.input))

    def _activity_task_started(self, _: HistoryEvent, said: Any, __: Any) -> Iterator[StoryEntry]:
        why = describe_failure(said.last_failure) if said.HasField("last_failure") else ""
        self.attempts[said.scheduled_event_id] = said.attempt, why
        yield from ()

    def _activity_task_completed(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        yield self.ended(said.scheduled_event_id, EntryKind.COMPLETED, entry, value=value(said.result))

    def _activity_task_failed(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        why = {"reason": said.failure.application_failure_info.type, "message": failure_message(said.failure)}
        yield self.ended(said.scheduled_event_id, EntryKind.FAILED, entry, **why)

    def _activity_task_canceled(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        yield self.ended(said.scheduled_event_id, EntryKind.CANCELLED, entry)

    def _marker_recorded(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        if "result" in said.details:
            name = value(said.details["data"])["activity_type"]
            yield entry(EntryKind.COMPLETED, name, "at once", value(said.details["result"]))

    def _workflow_execution_signaled(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        yield entry(EntryKind.SIGNALLED, said.signal_name, value=value(said.input))

    def _workflow_execution_update_accepted(self, _: HistoryEvent, said: Any, __: Any) -> Iterator[StoryEntry]:
        self.updates[said.accepted_request.meta.update_id] = said.accepted_request.input.name
        yield from ()

    def _workflow_execution_update_completed(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        name = self.updates[said.meta.update_id]
        yield entry(EntryKind.UPDATED, name, value=value(said.outcome.success))

    def _timer_started(self, event: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        summary = json.loads(event.user_metadata.summary.data or b'""')
        yield entry(EntryKind.WAITED, summary, value=said.start_to_fire_timeout.ToTimedelta().total_seconds())

    def _upsert_workflow_search_attributes(self, _: HistoryEvent, said: Any, entry: Any) -> Iterator[StoryEntry]:
        fields = said.search_attributes.indexed_fields
        yield entry(EntryKind.PUBLISHED, value={name: json.loads(one.data) for name, one in fields.items()})


def part_event(part: WhileAway, at: datetime) -> HistoryEvent:
    """Write the signal as the node sends it."""
    payload = Payload(metadata={"encoding": b"json/plain"}, data=to_json(part))
    event = HistoryEvent(
        event_id=9999,
        event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
        workflow_execution_signaled_event_attributes=WorkflowExecutionSignaledEventAttributes(
            signal_name=names.WHILE_AWAY, input=Payloads(payloads=[payload])
        ),
    )
    event.event_time.FromDatetime(at)
    return event


def as_outage(events: Sequence[HistoryEvent], cut: int) -> list[HistoryEvent]:
    """Replace everything after the cut by the story of an outage, in two parts that overlap."""
    convert = Entries()
    entries = [(number, entry) for number, event in enumerate(events) for entry in convert.of(event)]
    away = tuple(entry for number, entry in entries if number >= cut)
    half = len(away) // 2
    since = events[cut].event_time.ToDatetime(tzinfo=UTC)
    parts = [WhileAway(1, 7, away[: half + 1]), WhileAway(1, 7 + half // 2, away[half // 2 :])]
    return [
        *events[:cut],
        *(
            part_event(WhileAway(one.epoch, one.first, one.entries, 0, since, since + AWAY), since + AWAY)
            for one in parts
        ),
    ]


def said(lines: Sequence[Line]) -> list[tuple[datetime, str]]:
    """Return what a story says and when, without what only Temporal can say."""
    only_temporals = ("another worker", "the pod is gone:", "the workflow", "the worker", "someone asked")
    return sorted((one.at, one.text) for one in lines if not one.text.startswith(only_temporals))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_an_outage_is_told_by_the_same_sentences(path: Path) -> None:
    """An entry is told as its event would be, at its own time, and once although it was sent twice."""
    events = list(read_history(path).events)
    whole = build_story([events])
    cut = len(events) // 3
    lines = build_story([as_outage(events, cut)]).lines
    header = [one for one in lines if one.text == "while Temporal was away (2 min 10 s):"]
    assert len(header) == bool([one for one in lines if one.while_away])
    assert said([one for one in lines if one not in header]) == said(whole.lines)
