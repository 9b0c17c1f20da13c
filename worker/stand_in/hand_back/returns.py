"""How long the node keeps a pod whose own workflow does not work, before it is handed back again. Pure.

A workflow whose code fails would fail after each hand-back, and for the seconds in between nobody leads the pod. So a pod that comes back
to the node with the same trouble stays longer each time. The node's record of it lives as long as the worker process: another release, or
a restart, may have mended what failed, so each worker begins with a try at once.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

FAILED_TASKS: Final = 3
"""After so many failed workflow tasks in a row, one pod's workflow does not work."""
FIRST: Final = 60.0
LONGEST: Final = 3600.0
"""Seconds of a stay; each further one is twice as long."""
WORKED: Final = 600.0
"""After so many seconds in Temporal a workflow has worked, and what follows is another trouble."""
AGAIN: Final = 2
"""From this failure in a row on, the pod is one that the node keeps."""


class Trouble(StrEnum):
    """Why a workflow alone does not work, while Temporal does."""

    FAILED_TASKS = "its workflow tasks fail"
    UNDELIVERED = "it is not given what is due"


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod with the node because of its workflow's trouble; seconds of one monotonic clock."""

    trouble: Trouble
    failures: int
    """In a row, each after a hand-back; the first one is what the node saw first."""
    until: float
    """When it may be handed back."""
    returned_at: float | None = None
    """When it was handed back last; None: not since the failure."""

    @property
    def is_kept(self) -> bool:
        """Report whether a hand-back has failed in the same way."""
        return self.failures >= AGAIN


def failed(before: Stay | None, trouble: Trouble, now: float) -> Stay:
    """Return the stay that follows when a workflow has this trouble; `before`: the last one."""
    is_again = before is not None and before.trouble is trouble and not _has_worked(before, now)
    failures = before.failures + 1 if before is not None and is_again else 1
    return Stay(trouble, failures, now + _pause(trouble, failures))


def returned(stay: Stay, now: float) -> Stay:
    """Note that the workflow has taken the pod back."""
    return replace(stay, returned_at=now)


def words(stay: Stay, next_try: datetime) -> str:
    """Say it to people, after the reason why the node leads the pod."""
    if not stay.is_kept:
        return ""
    return (
        f"; {stay.trouble} whenever it is handed back ({stay.failures} times in a row), so it is handed back next "
        f"at {next_try:%Y-%m-%dT%H:%M:%SZ}, or when a worker starts"
    )


def _has_worked(before: Stay, now: float) -> bool:
    return before.returned_at is not None and now - before.returned_at >= WORKED


def _pause(trouble: Trouble, failures: int) -> float:
    """Return the seconds of a stay: what is only late may be there in a moment, so it is tried at once the first time."""
    exponent = failures - 1 if trouble is Trouble.FAILED_TASKS else failures - 2
    return min(FIRST * 2**exponent, LONGEST) if exponent >= 0 else 0.0
