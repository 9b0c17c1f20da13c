"""What there is to know about one type of action; each is a row of the table in `actions`.

Plain values: each driver of the loops carries them out (`workflows/loops/driver.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Retry:
    """The delays between an activity's retries, for failures that Kubernetes would also retry in silence."""

    initial: timedelta
    longest: timedelta
    factor: float = 2


PATIENT: Final = Retry(timedelta(milliseconds=200), timedelta(seconds=5))
"""Retried without limit: a pod keeps its state while the runtime is unavailable, and continues when it is back."""
PROBING: Final = Retry(timedelta(milliseconds=50), timedelta(seconds=5))
"""The first retry follows at once, so a new worker takes over without a gap when the one before it was killed."""

HEARTBEAT: Final = timedelta(seconds=30)
"""How long an activity may be silent before it counts as lost.

The activities of a worker that dies are taken over at once by the next one, so this only bounds what was lost in another
way. Each activity heartbeats three times in it. With 10 s, the waiting activities of a 110-pod start were a fifth of
Temporal's work.
"""


def _nothing(_: Any) -> timedelta:
    return timedelta()


def _no_retry(_: Any) -> Retry | None:
    return None


@dataclass(frozen=True, slots=True)
class ActionType:
    """One type of action: what it is about, how it is called, and how it is shown."""

    name: str
    """The activity's name."""
    key: Callable[[Any], str]
    """What an action is about: no two actions with one key run side by side."""
    summary: Callable[[Any], str]
    """What the Temporal UI shows of an action."""
    within: timedelta
    """How long one try may take."""
    result: Any = None
    """The type of its answer; None: it has none."""
    heartbeat: timedelta | None = HEARTBEAT
    retry: Retry = PATIENT
    own_retry: Callable[[Any], Retry | None] = _no_retry
    """The retry that an action asks for, in place of `retry`."""
    extra_time: Callable[[Any], timedelta] = _nothing
    """What an action adds to `within`."""
    at_once: timedelta | None = None
    """For a read: how long it is tried as a local activity, within the workflow task, before it becomes an activity."""
    holds_reread: bool = False
    """The runtime is re-read only when the action has ended, because it changes what a re-read would see."""
    endless: bool = False
    """It runs as long as what it is about, so continue-as-new does not wait for it."""
