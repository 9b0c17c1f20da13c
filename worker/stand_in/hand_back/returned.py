"""A pod, or the node's images, that is handed back to Temporal, and what became of it."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from proto.temporal.pod import PodOutcome, PodStart
from worker.stand_in.journal.kept import Start, Story


class HandedOver(StrEnum):
    """What became of a hand-back."""

    TAKEN = "taken"
    REFUSED = "refused"
    """Temporal works, but not for this workflow: it is paused, for example."""
    FAILED = "failed"
    """Temporal works, but the run that was to go on with it fails its workflow tasks."""
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Returned:
    """A pod, or the node's images, that is handed back."""

    workflow_id: str
    start: Start
    """Its state, with the ticket of the next run."""
    outcome: PodOutcome | None
    """None while it lives."""
    since: datetime
    story: Story
    replays: bool = True
    """Whether an open run may take it, as far as this node knows."""


class HandBack(Protocol):
    """Temporal, to which pods are handed back (`handing_back.py`)."""

    async def is_there(self) -> bool:
        """Report whether Temporal answers."""
        ...

    async def failed_tasks(self, workflow_id: str) -> int | None:
        """Return how many tasks of the workflow have failed in a row; None if Temporal does not answer."""
        ...

    async def hand_back(self, pod: Returned) -> HandedOver:
        """Tell the pod's workflow its story and its state; returns once the workflow leads the pod, or that it does not."""
        ...


def to_be_read_again(state: Start) -> Start:
    """Return a pod's state whose next driver reads the runtime first: hints between the two may be lost. Images are watched anyway."""
    if isinstance(state, PodStart) and state.observed:
        return replace(state, observed=replace(state.observed, runtime_stale=True))
    return state
