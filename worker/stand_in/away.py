"""Judges whether Temporal is away, from what is due and what it has committed lately.

Pure. Nothing depends on this judgement being right: effects are fenced by the ticket of each activity, so that leading a
pod beside a Temporal that works is slow, not wrong.

Away means that something is due (an answer that no history has, a timer, a message that was not taken), and that no workflow task
of any pod has been committed for a while since. An idle node has nothing due, so it never finds Temporal away. A
Temporal that is slow still commits. A pod whose own workflow tasks fail says nothing about Temporal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from worker.stand_in.hand_back.returns import FAILED_TASKS

AWAY_SECONDS: Final = 5.0
"""How long something is due before Temporal is away: longer than the failover of a Temporal cluster."""
ALONE_SECONDS: Final = 30.0
"""The same for one pod, while other pods' workflow tasks are committed."""
LONGEST_STEP: Final = 1.0
"""Seconds of one step of `AttentiveClock`, at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """For how many seconds something may be due before this node leads."""

    away: float = AWAY_SECONDS
    """All pods."""
    alone: float = ALONE_SECONDS
    """One pod alone, while Temporal works for others."""


class AttentiveClock:
    """A clock that stands still while this process is suspended, or its event loop is blocked.

    What was due meanwhile was not late because of Temporal. `step` is called several times a second.
    """

    def __init__(self, monotonic: float) -> None:
        self._last = monotonic
        self.now = 0.0
        """Seconds since the start."""

    def step(self, monotonic: float) -> float:
        """Move on by the time since the last step, by a second at most; returns the new time."""
        self.now += min(max(0.0, monotonic - self._last), LONGEST_STEP)
        self._last = monotonic
        return self.now


@dataclass(frozen=True, slots=True)
class Due:
    """Something that Temporal should have taken or done."""

    workflow_id: str
    what: str
    """Words for people: "the answer of start/web"."""
    since: float
    """In seconds of the AttentiveClock, as all times here."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What Temporal has committed lately."""

    at: float = 0.0
    """The last workflow task of any pod or the node."""
    failed_tasks: tuple[tuple[str, int], ...] = ()
    """By workflow: how many of its tasks in a row have failed (`failed_tasks.py`)."""

    def failing(self) -> dict[str, int]:
        """Return the workflows that do not work, and how many of their tasks have failed."""
        return {workflow_id: count for workflow_id, count in self.failed_tasks if count >= FAILED_TASKS}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is away."""

    away_since: float | None = None
    """When the first thing became due that Temporal did not take; None: Temporal works."""
    why: str = ""
    alone: tuple[tuple[str, str], ...] = ()
    """Pods whose own workflow does not work, and why; empty if Temporal is away for all."""


def judge(
    due: Iterable[Due],
    committed: Committed,
    now: float,
    limits: Limits = Limits(),
    *,
    polls_since: float = 0.0,
) -> Verdict:
    """Judge whether Temporal is away, or the workflows of some pods alone do not work.

    `polls_since` is when this worker began to ask for work: what was due before waited for the worker, not for Temporal.
    """
    failing = committed.failing()
    ordered = sorted((one for one in due if one.workflow_id not in failing), key=lambda one: one.since)
    waiting = [one for one in ordered if now - max(one.since, committed.at, polls_since) >= limits.away]
    if waiting:
        first = waiting[0]
        return Verdict(first.since, f"{first.what} of {first.workflow_id} is due for {now - first.since:.0f} s")
    undelivered = [one for one in ordered if now - max(one.since, polls_since) >= limits.alone]
    alone = {one.workflow_id: alone_words(one, now) for one in reversed(undelivered)}
    alone |= {workflow_id: f"its last {count} workflow tasks failed" for workflow_id, count in failing.items()}
    return Verdict(alone=tuple(sorted(alone.items())))


def alone_words(due: Due, now: float) -> str:
    """Say what one pod waits for."""
    return f"{due.what} is due for {now - due.since:.0f} s, while Temporal works for others"
