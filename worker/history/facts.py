"""Tells single facts of a pod's life: an action's answer, a signal, a wait.

A fact comes from an event of the history (`story`), or from an entry of the story of an outage (`while_away`): both are told by
the same rows. A `Read` parses the fact's value as a type, and returns None if it cannot be read.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic_core import to_json

from proto.temporal.activities.requests import RunHook, StartContainer
from proto.temporal.failure_types import PREDECESSOR_PRESENT
from worker.history.sentences import container_sentences, table, update_sentences
from worker.history.sentences.story_state import CompletedActivity, StoryState, seconds
from workflows.decide.actions import ACTIONS
from workflows.decide.keys import run_hook_key

Read = Callable[[Any], Any]
READS: Final = frozenset(row.name for row in ACTIONS.values() if row.at_once)
"""Activities that take no time."""


@dataclass(frozen=True, slots=True)
class AskedActivity:
    """A scheduled activity: its request, when it was scheduled, and the latest attempt."""

    activity_id: str
    activity: str
    request: Any
    at: datetime
    tries: int = 1
    last_failure: str = ""

    @property
    def what(self) -> str:
        """What it does, in words."""
        row = table.ACTIVITIES.get(self.activity)
        return row.what(self.request) if row and self.request is not None else self.activity

    @property
    def counted_tries(self) -> str:
        """How often it was tried, and why again; empty for one try."""
        why = f", after {self.last_failure}" if self.last_failure else ""
        return f" (try {self.tries}{why})" if self.tries > 1 else ""


@dataclass(frozen=True, slots=True)
class FailedActivity:
    """Why an activity failed."""

    type: str
    message: str

    @property
    def described(self) -> str:
        """Reason and message."""
        return f"{self.type}: {self.message}" if self.type else self.message


@dataclass(slots=True)
class Waits:
    """Remembers when each wait ends: a timer may be started again, its wait is reported once."""

    ends: dict[str, datetime] = field(default_factory=dict)
    """By the timer's summary."""

    def begun(self, summary: str, wait: timedelta, at: datetime) -> Iterator[str]:
        """Report a wait, unless it goes on from before."""
        if at > self.ends.get(summary, at - wait):
            yield f"waits {seconds(wait)}: {summary}" if summary else f"waits {seconds(wait)}"
        self.ends[summary] = at + wait


def signalled(state: StoryState, name: str, sender: str, read: Read) -> Iterator[str]:
    """Report a signal."""
    row = table.SIGNALS.get(name)
    if row is None:
        yield f"signal {name}, which this release does not know"
    elif (signal := read(row.kind)) is None:
        yield f"signal {name} from {sender}, which cannot be read and is ignored"
    else:
        yield from row.say(state, signal)


def updated(state: StoryState, name: str, read: Read) -> Iterator[str]:
    """Report an Update that was answered."""
    row = update_sentences.UPDATES.get(name)
    answer = read(row.kind) if row else None
    if row is None or answer is None:
        yield f"update {name}, which this release does not know or cannot read"
    else:
        yield from row.say(state, answer)


def scheduled(state: StoryState, activity_id: str, activity: str, read: Read, *, at: datetime) -> AskedActivity:
    """Note what must be known before an activity completes."""
    row = table.ACTIVITIES.get(activity)
    request = read(row.asked) if row else None
    if row and row.note and request is not None:
        row.note(state, request)
    return AskedActivity(activity_id, activity, request, at)


def completed(
    state: StoryState, asked: AskedActivity | None, read: Read, at: datetime, *, is_entry: bool = False
) -> Iterator[str]:
    """Report an activity's answer; `is_entry`: the story of an outage tells it."""
    row = table.ACTIVITIES.get(asked.activity) if asked else None
    if asked is None or row is None or asked.request is None:
        yield f"{asked.activity if asked else 'an activity'} done"
        return
    answer = read(row.answer) if row.answer is not None else None
    if not _is_new(state, asked, answer, at, is_entry=is_entry):
        return
    done = CompletedActivity(asked.request, answer, asked.at, at - asked.at)
    for number, text in enumerate(row.say(state, done)):
        yield text + (asked.counted_tries if number == 0 else "")


def _is_new(state: StoryState, asked: AskedActivity, answer: Any, at: datetime, *, is_entry: bool) -> bool:
    """Report whether an end was not told yet: the node may be given the answer that the workflow had just got.

    A hook of an instance runs once, and two requests for it differ only in who asked when.
    """
    hook = asked.request if isinstance(asked.request, RunHook) else None
    what = run_hook_key(hook) if hook else (asked.activity, asked.request)
    told = hashlib.sha256(to_json((what, answer), fallback=str)).digest()
    if hook and not hook.container_id and answer and answer.succeeded:
        return state.is_new_preparation(hook.name, told)
    begun_at = datetime.min.replace(tzinfo=UTC) if hook and hook.container_id else asked.at
    return state.is_new_outcome(told, begun_at, at, is_entry=is_entry)


def read_at_once(state: StoryState, activity: str, read: Read, at: datetime) -> Iterator[str]:
    """Report the answer of a read that took no time, and has no event or entry of its own for its begin."""
    row = table.ACTIVITIES.get(activity)
    answer = read(row.answer) if row else None
    if row is not None and activity not in READS:
        yield f"{activity} done"  # the story has lost its begin
    elif row is not None and answer is not None:
        yield from row.say(state, CompletedActivity(None, answer, at, timedelta()))


def failed(state: StoryState, asked: AskedActivity, failure: FailedActivity, at: datetime) -> Iterator[str]:
    """Report an activity's failure."""
    if isinstance(asked.request, StartContainer):
        container_sentences.start_failed(state, asked.request)
    if failure.type == PREDECESSOR_PRESENT:
        yield f"{asked.what} waits: {failure.message}"
    else:
        yield f"{asked.what} failed after {seconds(at - asked.at)}: {failure.described}{asked.counted_tries}"


def cancelled(asked: AskedActivity) -> Iterator[str]:
    """Report that an activity was cancelled."""
    yield f"{asked.what} was cancelled"


def published(state: StoryState, attributes: dict[str, Any], changed: dict[str, Any]) -> Iterator[str]:
    """Report changed search attributes, and take them over."""
    before = dict(attributes)
    attributes |= changed
    state.phase = table.attribute(attributes, "PodPhase")
    yield from table.attributes_changed(before, attributes)
