"""A pod that is handed back to Temporal, and what became of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from proto.temporal.pod import PodOutcome, PodStart
from worker.stand_in.journal.kept import Story


class HandedOver(StrEnum):
    """What became of a hand-back."""

    TAKEN = "taken"
    REFUSED = "refused"
    """Temporal works, but not for this workflow: it is paused, for example."""
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Returned:
    """A pod that is handed back."""

    workflow_id: str
    start: PodStart
    """Its state, with the ticket of the next run."""
    outcome: PodOutcome | None
    """None while it lives."""
    since: datetime
    story: Story
