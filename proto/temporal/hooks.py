"""A container's lifecycle hooks: their kinds, their retries and their outcomes.

Parts of `pod.Observed` and of `activities.requests.RunHook`, and its answer. Fields are only ever added, each with a
default.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Hook(StrEnum):
    """The lifecycle hooks of Kubernetes, and two more."""

    POST_START = "postStart"
    PRE_STOP = "preStop"
    PRE_START = "preStart"
    """Not in Kubernetes: before an attempt starts."""
    POST_STOP = "postStop"
    """Not in Kubernetes: after an instance has ended."""


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """How a hook of one instance ended; once known, the hook is not run again for that instance."""

    container_id: str
    succeeded: bool
    message: str = ""
    asked_at: datetime | None = None
    """For a preStop hook: when the stop was asked for, which is when its grace period began."""
    ended_at: datetime | None = None
    sandbox_id: str = ""
    attempt: int = 0
    """For a preStart hook, instead of a container's id: the attempt in the sandbox."""


@dataclass(frozen=True, slots=True)
class HookRetry:
    """How often a failed hook is retried, and with which delays."""

    max_attempts: int
    initial: timedelta
    factor: int
    """Each delay is this many times the one before."""
    longest: timedelta


@dataclass(frozen=True, slots=True)
class HookEnded:
    """How a hook ended."""

    succeeded: bool
    message: str = ""
    again: bool = False
    """An earlier try may have run it, with unknown outcome."""
    tries: int = 1
    """This try and the earlier ones that are known to have failed."""
