"""A container's lifecycle hooks: which there are, how one is tried, and how it ended.

Parts of `pod.Observed` and of `requests.RunHook`, and the answer to that. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Hook(StrEnum):
    """A container's lifecycle hooks, the API's words, and two of our own that are named like them."""

    POST_START = "postStart"
    PRE_STOP = "preStop"
    PRE_START = "preStart"
    """Ours: before an attempt starts."""
    POST_STOP = "postStop"
    """Ours: after an instance has ended."""


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """How a hook of one instance ended; once it is known, the hook is not run again for that instance."""

    container_id: str
    succeeded: bool
    message: str = ""
    asked_at: datetime | None = None
    """Of a preStop hook: when the stop was asked for, from where its grace counts."""
    ended_at: datetime | None = None
    sandbox_id: str = ""
    attempt: int = 0
    """Of a preStart hook, in place of a container's id: which attempt it was for, and where."""


@dataclass(frozen=True, slots=True)
class HookRetry:
    """How often a hook that fails is tried, and how long is waited in between."""

    max_attempts: int
    initial: timedelta
    factor: int
    """Each pause is so many times the one before."""
    longest: timedelta


@dataclass(frozen=True, slots=True)
class HookEnded:
    """How a hook ended."""

    succeeded: bool
    message: str = ""
    again: bool = False
    """An earlier try may have run it, and nobody knows how that ended."""
    tries: int = 1
    """This one and those before it that are known to have failed."""
