"""Does the story of an outage fit into signals, whole, in order, and divided alike when it is told again?"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from pydantic_core import to_json

from proto.temporal.away import STORY_BYTES, STORY_SIGNALS, EntryKind, StoryEntry
from proto.temporal.pod import Observed, PodStart
from proto.temporal.pod_inputs import HandBack
from proto.temporal.ticket import Ticket
from tests.workflows.decide.situations import NOW, at, pod
from worker.stand_in.hand_back.returned import Returned
from worker.stand_in.hand_back.story_parts import Told, told
from worker.stand_in.journal.kept import LeftOut, NumberedEntry, Story

UNTIL = at(130)
NOTHING = LeftOut()


def numbered(*positions: int, size: int = 0) -> list[NumberedEntry]:
    """Write entries of about this many bytes."""
    entry = StoryEntry(NOW, EntryKind.SIGNALLED, "x", value="." * size)
    return [NumberedEntry(one, entry) for one in positions]


def told_of(entries: Sequence[NumberedEntry], left_out: LeftOut = NOTHING, unreadable: int = 0) -> Told:
    """Tell this story."""
    start = PodStart("node", pod(), observed=Observed(), ticket=Ticket("life", 4))
    return told(Returned("id", start, None, NOW, Story(tuple(entries), left_out, unreadable)), UNTIL)


@pytest.mark.parametrize(
    ("entries", "parts"),
    [
        pytest.param([], [], id="no-entries-no-part"),
        pytest.param(numbered(7, 8, 9), [(7, 3)], id="one-part"),
        pytest.param(numbered(7, 8, 10), [(7, 2), (10, 1)], id="a-missing-position-begins-a-part"),
        pytest.param(numbered(1, 2, 3, size=30_000), [(1, 2), (3, 1)], id="no-room-begins-a-part"),
        pytest.param(numbered(*range(1, 61), size=60_000), [(n, 1) for n in range(1, 21)], id="the-first-20-parts"),
    ],
)
def test_the_parts(entries: list[NumberedEntry], parts: list[tuple[int, int]]) -> None:
    """First position and number of entries of each; what has no room is counted in the last one and in the state."""
    sent = told_of(entries)
    assert [(one.first, len(one.entries)) for one in sent.parts] == parts
    assert len(sent.parts) <= STORY_SIGNALS
    assert all(len(to_json(one.entries)) <= STORY_BYTES for one in sent.parts)
    left_out = len(entries) - sum(count for _, count in parts)
    assert [one.left_out for one in sent.parts if one.left_out] == ([left_out] if left_out else [])
    assert (sent.state.entries, sent.state.epoch, sent.state.since, sent.state.until) == (len(entries), 4, NOW, UNTIL)


def test_each_signal_names_the_life_of_its_pod() -> None:
    """So that it means nothing to a later one."""
    sent = told_of(numbered(7, 9), LeftOut(10, {"waited": 1}))
    assert {*(one.incarnation for one in sent.parts), sent.state.incarnation} == {"life"}
    assert {one.incarnation for one in told_of([], LeftOut(10, {"waited": 1})).parts} == {"life"}


def test_a_longer_story_is_divided_alike() -> None:
    """So that Temporal drops the parts that a run has already."""
    entries = numbered(*range(1, 30), size=5_000)
    before, after = told_of(entries[:20]).parts, told_of(entries).parts
    assert before[:-1] == after[: len(before) - 1]


@pytest.mark.parametrize(
    ("until", "parts"),
    [
        pytest.param(NOW, [3], id="told-up-to-a-position"),
        pytest.param(at(-1), [1], id="positions-began-anew-since"),
    ],
)
def test_what_the_newest_run_has_is_not_told_again(until: datetime, parts: list[int]) -> None:
    """A worker ended after the pod was taken back, and before it had noted that."""
    entries = numbered(1, 2, 3)
    start = PodStart("node", pod(), observed=Observed(), ticket=Ticket("life", 4))
    sent = told(Returned("id", start, None, NOW, Story(tuple(entries))), UNTIL, HandBack(NOW, until, 2, 2))
    assert [one.first for one in sent.parts] == parts
    assert sent.state.position == 3


def test_what_the_journal_has_left_out_is_counted() -> None:
    """Also if nothing else is left of the story."""
    sent = told_of([], LeftOut(9, {"signalled": 3}, is_full=True), unreadable=2)
    assert [(one.first, one.entries, one.left_out) for one in sent.parts] == [(9, (), 5)]
    assert sent.state.entries == 5


def test_a_huge_entry_loses_its_value() -> None:
    """It is told that it happened."""
    huge = NumberedEntry(1, StoryEntry(NOW + timedelta(), EntryKind.FAILED, "x", "k", "." * 70_000, "R", "m" * 9_000))
    (part,) = told_of([huge]).parts
    (entry,) = part.entries
    assert (entry.value, entry.reason, entry.message[:1]) == (None, "R", "m")
    assert len(to_json(part.entries)) < 4_000
