"""Tells what happened while Temporal was away, from the signals that the node sent afterwards.

Each entry has its own time, by the node's clock, and is told by the same rows as an event. A part of the story may have been sent
twice, because the worker ended in between: the position of each entry tells which ones are new.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from proto.temporal.away import EntryKind, HandedBack, StoryEntry, WhileAway
from proto.temporal.pod import PodStart
from worker.history import facts
from worker.history.facts import AskedActivity, FailedActivity
from worker.history.sentences.story_state import seconds
from worker.history.sentences.table import parse_payload
from worker.history.story_builder import Dated, Saying, StoryBuilder

AWAY_STILL: Final = "while Temporal is away, this node's worker leads the pod:"
_NODE: Final = "the node"


@dataclass(frozen=True, slots=True)
class Untold:
    """What Temporal does not know yet: only the node's journal has it."""

    parts: tuple[WhileAway, ...]
    start: PodStart | None = None
    """The pod's newest state, for a story of which there is nothing else."""


def untold(builder: StoryBuilder, known: Untold, at: datetime) -> Iterator[Dated]:
    """Report what Temporal does not know yet; what it has been told already is left out."""
    if known.start is not None and not builder.state.behaviour:
        builder.state.settings, builder.state.behaviour = known.start.settings, known.start.behaviour
    for part in known.parts:
        for saying in told(builder, part, at):
            yield saying if isinstance(saying, Dated) else Dated(part.since or at, saying)


def told(builder: StoryBuilder, part: WhileAway | None, at: datetime) -> Iterator[Saying]:
    """Report a part of the story, which arrived at this time."""
    outages = builder.outages
    if part is None:
        outages.told.add(None)
        yield "a part of what happened while Temporal was away, which cannot be read"
        return
    if not part.entries and not part.left_out:
        return  # it only announces the story
    missing = part.first - outages.next.get(part.epoch, part.first)
    if missing > 0 and outages.is_new_remark("missing", part.first):
        outages.told.add(part.since)
        yield f"{missing} entries are missing here"
    outages.next[part.epoch] = part.first + len(part.entries)
    new = [entry for position, entry in enumerate(part.entries, part.first) if outages.is_new(position, entry)]
    for entry in new:
        for text in ENTRIES[entry.kind](builder, entry):
            if outages.line != (part.since or at, part.until):
                outages.line = (part.since or at, part.until)
                outage = f"while Temporal was away{duration(part.since, part.until)}:" if part.until else AWAY_STILL
                yield Dated(part.since or at, outage, is_entry=False)
            outages.told.add(part.since)
            yield Dated(entry.at, text)
    if part.left_out and outages.is_new_remark("left out", part.first + len(part.entries), part.left_out):
        outages.told.add(part.since)
        yield f"{part.left_out} more entries had no room in this history"


def handed_back(builder: StoryBuilder, handed: HandedBack | None) -> Iterator[Saying]:
    """Report the end of an outage in which nothing happened that has a sentence; else the story was told before."""
    if handed is None:
        yield "the pod was handed back after Temporal was away, which cannot be read"
    elif builder.outages.told.isdisjoint({handed.since, None}) and builder.outages.is_new_remark("quiet", handed.since):
        text = f"while Temporal was away{duration(handed.since, handed.until)} nothing happened"
        yield Dated(handed.since, text, is_entry=False)


def duration(since: datetime | None, until: datetime | None) -> str:
    """Write how long it was away, in parentheses."""
    return f" ({seconds(until - since)})" if since and until else ""


def _scheduled(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    before = _of_key(builder, entry.key)
    if before is not None:
        del builder.asked[before]
        builder.told_by_node.add(before)
    builder.asked[entry.key] = facts.scheduled(builder.state, entry.key, entry.name, _reader(entry), at=entry.at)
    yield from ()


def _completed(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    asked = _ended(builder, entry)
    if asked is None:
        yield from facts.read_at_once(builder.state, entry.name, _reader(entry), entry.at)
    else:
        yield from facts.completed(builder.state, asked, _reader(entry), entry.at, is_entry=True)


def _failed(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    asked = _ended(builder, entry) or AskedActivity(entry.key, entry.name, None, entry.at)
    yield from facts.failed(builder.state, asked, FailedActivity(entry.reason, entry.message), entry.at)


def _cancelled(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    asked = _ended(builder, entry)
    if asked is not None:
        yield from facts.cancelled(asked)


def _signalled(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    yield from facts.signalled(builder.state, entry.name, _NODE, _reader(entry))


def _updated(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    yield from facts.updated(builder.state, entry.name, _reader(entry))


def _waited(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    wait = _reader(entry)(float)
    if wait is not None:
        yield from builder.waits.begun(entry.name, timedelta(seconds=wait), entry.at)


def _published(builder: StoryBuilder, entry: StoryEntry) -> Iterator[str]:
    yield from facts.published(builder.state, builder.attributes, _reader(entry)(dict[str, Any]) or {})


ENTRIES: Final[Mapping[EntryKind, Callable[[StoryBuilder, StoryEntry], Iterator[str]]]] = {
    EntryKind.SCHEDULED: _scheduled,
    EntryKind.COMPLETED: _completed,
    EntryKind.FAILED: _failed,
    EntryKind.CANCELLED: _cancelled,
    EntryKind.SIGNALLED: _signalled,
    EntryKind.UPDATED: _updated,
    EntryKind.WAITED: _waited,
    EntryKind.PUBLISHED: _published,
}
"""What is said of each kind of entry."""


def _ended(builder: StoryBuilder, entry: StoryEntry) -> AskedActivity | None:
    """Take the activity that ended with this entry; it may have begun before Temporal was away."""
    name = _of_key(builder, entry.key)
    if name is None:
        return None
    return replace(builder.asked.pop(name), tries=entry.attempts, last_failure=entry.last_failure)


def _of_key(builder: StoryBuilder, key: str) -> int | str | None:
    return next((name for name, asked in builder.asked.items() if asked.activity_id == key), None)


def _reader(entry: StoryEntry) -> facts.Read:
    return partial(_parse, entry.value)


def _parse(value: Any, kind: Any) -> Any:
    """Parse a value that was read as JSON; None if it cannot be read."""
    try:
        return None if value is None else parse_payload(to_json(value), kind)
    except PydanticSerializationError:
        return None


STAY: Final = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
        EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,  # each says what has changed since the one before
    }
)


def in_order(
    events: Iterable[HistoryEvent], story_of: Callable[[HistoryEvent], WhileAway | None]
) -> list[HistoryEvent]:
    """Put what a run recorded after an outage had begun behind the outage's story, which `story_of` reads from a signal.

    When Temporal is back, a run that is open goes on for a moment, until it is told what the node did meanwhile. It reads the
    runtime, and records as news what the story explains: that a container has ended, which the node has stopped.
    """
    ordered = list(events)
    parts = [(number, story) for number, event in enumerate(ordered) if (story := story_of(event))]
    begun = _begun(ordered[parts[0][0]], parts[0][1]) if parts else None
    if begun is None:
        return ordered
    first, last = parts[0][0], parts[-1][0]
    late = [one for one in ordered[:first] if one.event_type not in STAY and _at(one) > begun]
    kept = [one for one in ordered[:first] if one.event_type in STAY or _at(one) <= begun]
    return [*kept, *ordered[first : last + 1], *late, *ordered[last + 1 :]]


def _begun(told: HistoryEvent, story: WhileAway) -> datetime | None:
    """Return when the outage began by Temporal's clock: the story is told at its end by the node's clock, which may differ."""
    return _at(told) - (story.until - story.since) if story.since and story.until else None


def _at(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(tzinfo=UTC)
