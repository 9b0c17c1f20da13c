"""What a story keeps between two facts, and what it says of each."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from proto.temporal.pod_inputs import HandBack
from worker.history.facts import AskedActivity, Waits
from worker.history.story_state import StoryState


@dataclass(frozen=True, slots=True)
class Dated:
    """A line with a time of its own: what happened while Temporal was away."""

    at: datetime
    text: str
    is_entry: bool = True
    """False for the line above the entries."""


Saying = str | Dated
"""A line; it has the time of its event if it has none of its own."""


@dataclass(slots=True)
class ToldOutage:
    """How much of the story of one outage was told."""

    next: int = 0
    """The position of the first entry that was not told."""
    until: datetime | None = None
    """The end of the outage as the last line above entries has it."""


@dataclass(slots=True)
class StoryBuilder:
    """State kept between two events."""

    state: StoryState = field(default_factory=StoryState)
    asked: dict[int | str, AskedActivity] = field(default_factory=dict)
    """By the id of the event that scheduled it, or by its key if it began while Temporal was away."""
    identity: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    updates: dict[str, str] = field(default_factory=dict)
    """Update id -> name."""
    waits: Waits = field(default_factory=Waits)
    outages: dict[int, ToldOutage] = field(default_factory=dict)
    """By epoch."""
    handed_back: HandBack | None = None
    """As the latest run has it."""
