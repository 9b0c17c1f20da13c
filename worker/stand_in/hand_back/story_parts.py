"""Divides the story of an outage into signals: of a bounded size, in order, and divided alike when it is told again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pydantic_core import to_json

from proto.messages import shorten
from proto.temporal.away import STORY_BYTES, STORY_SIGNALS, WhileAway
from proto.temporal.pod_inputs import HandBack
from worker.stand_in.hand_back.returned import Returned
from worker.stand_in.hand_back.subjects import State, state_of
from worker.stand_in.journal.kept import NumberedEntry

LONGEST_ENTRY: Final = STORY_BYTES - 1024
"""Bytes as JSON; of a longer one the value is left out."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is sent to the run of a pod that is handed back."""

    parts: tuple[WhileAway, ...]
    state: State


def told(pod: Returned, until: datetime, before: HandBack | None = None) -> Told:
    """Write the signals for a pod whose `observed` is known; `until`: now, as Temporal is found to be back.

    `before`: what the newest run was handed. A worker that ended had told that much of the same story.
    """
    start, story = pod.start, pod.story
    epoch, incarnation = start.ticket.epoch, start.ticket.incarnation
    groups = list(_groups([one for one in story.entries if not _is_told(one, before)]))
    sent = groups[:STORY_SIGNALS]
    missing = sum(story.left_out.counts.values()) + story.unreadable
    left_out = missing + sum(map(len, groups[STORY_SIGNALS:]))
    known = len(story.entries) + missing
    parts = [
        WhileAway(epoch, group[0].position, tuple(one.entry for one in group), 0, pod.since, until, incarnation)
        for group in sent
    ]
    if left_out:
        last = parts.pop() if parts else WhileAway(epoch, story.left_out.position, (), 0, pod.since, until, incarnation)
        parts.append(replace(last, left_out=left_out))
    newest = story.entries[-1].position if story.entries else 0
    state = state_of(
        start, epoch=epoch, since=pod.since, until=until, entries=known, position=newest, incarnation=incarnation
    )
    return Told(tuple(parts), state)


def _is_told(one: NumberedEntry, before: HandBack | None) -> bool:
    """Report whether the history has an entry; a journal that was lost begins anew with its positions, but later."""
    return before is not None and one.position <= before.position and one.entry.at <= before.until


def _groups(entries: Sequence[NumberedEntry]) -> Iterator[list[NumberedEntry]]:
    """Divide entries where one is missing, and where the next one has no room."""
    group: list[NumberedEntry] = []
    left = STORY_BYTES
    for one in (_shortened(each) for each in entries):
        length = len(to_json(one.entry)) + 1
        if group and (length > left or one.position != group[-1].position + 1):
            yield group
            group, left = [], STORY_BYTES
        group.append(one)
        left -= length
    if group:
        yield group


def _shortened(one: NumberedEntry) -> NumberedEntry:
    if len(to_json(one.entry)) <= LONGEST_ENTRY:
        return one
    entry = one.entry
    message, last_failure = shorten(entry.message), shorten(entry.last_failure)
    return NumberedEntry(one.position, replace(entry, value=None, message=message, last_failure=last_failure))
