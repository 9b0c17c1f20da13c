"""Judges whether Temporal has all of a workflow that the node has seen committed.

Pure. An older database cannot be told from the newest one by itself: what it lacks, nothing in it mentions. So the node compares it with the
place of the last decision that it has kept: the run, its length, and the time.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from worker.stand_in.journal.kept import Place

OF_A_TASK: Final = 2
"""Events of a workflow task that Temporal has not necessarily written when its decision is kept: scheduled and started."""
SAME_TIME: Final = timedelta(milliseconds=1)
"""The SDK rounds a task's time by way of a float."""


class Standing(StrEnum):
    """What Temporal has of a workflow."""

    WHOLE = "whole"
    """All that the node has seen; the workflow goes on."""
    CLOSED = "closed"
    """All that the node has seen, and its end."""
    LOST = "lost"
    """Less than the node has seen: the node leads the pod, and hands it back."""
    NOT_KNOWN = "not known"
    """Temporal has not said."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What Temporal says of a workflow, and of the run that the node knows."""

    is_known: bool = True
    """Temporal has a run of this workflow."""
    is_open: bool = True
    """The newest one goes on."""
    length: int | None = None
    """Events of the run that the node knows; None: Temporal does not have it."""
    written: datetime | None = None
    """When the event of that run was written that has the known length for its number; None: it was not looked for, or is not there."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement, and its reason for people."""

    standing: Standing
    why: str = ""


def judge(place: Place, namespace_id: str, seen: Seen | None) -> Judged:
    """Judge a workflow by what Temporal says of it; None: it has not said anything."""
    if place.namespace_id and namespace_id and place.namespace_id != namespace_id:
        return Judged(Standing.LOST, "Temporal's namespace is another one: its database was lost")
    if seen is None:
        return Judged(Standing.NOT_KNOWN)
    if not seen.is_known:
        return Judged(Standing.LOST, "Temporal does not know its workflow")
    if seen.length is None:
        return Judged(Standing.LOST, "Temporal does not know its last run")
    if seen.length < place.length - OF_A_TASK:
        return Judged(Standing.LOST, f"Temporal has {seen.length} events of its history, of {place.length}")
    if is_another(place, seen):
        return Judged(
            Standing.LOST, f"Temporal has another history: its event {place.length} is not the one that was seen"
        )
    return Judged(Standing.WHOLE if seen.is_open else Standing.CLOSED)


def is_another(place: Place, seen: Seen) -> bool:
    """Report whether something else stands where the decision stood: events were lost, and others have taken their numbers since.

    A decision is as late as the start of its workflow task, or later by the local activities before it.
    """
    return place.at is not None and seen.written is not None and seen.written > place.at + SAME_TIME
