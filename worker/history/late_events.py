"""Puts what a run recorded after an outage had begun behind the story of the outage.

When Temporal is back, the run that was open goes on for a moment, until it is told what the node did meanwhile. It reads the runtime, and
records as news what the story explains: that a container has ended, which the node has stopped.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from proto.temporal.away import WhileAway

STAY = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
        EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,  # each says what has changed since the one before
    }
)


def in_order(
    events: Iterable[HistoryEvent], story_of: Callable[[HistoryEvent], WhileAway | None]
) -> list[HistoryEvent]:
    """Return a run's events in the order in which they are told; `story_of` reads the part of a story in a signal."""
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
