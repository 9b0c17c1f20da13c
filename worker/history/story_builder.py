"""What a story keeps between two facts, and what it says of each."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from proto.temporal.away import StoryEntry
from proto.temporal.pod_inputs import HandBack
from worker.history.facts import AskedActivity, Waits
from worker.history.sentences.story_state import ContainerStory, StoryState


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
class ToldOutages:
    """What was told of outages; a part of a story may be there twice, under another epoch if the pod could not be handed back at first."""

    entries: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """By position what distinguishes an entry; positions begin anew if the node has lost its journal."""
    next: dict[int, int] = field(default_factory=dict)
    """By epoch the position after the newest part."""
    line: tuple[datetime, datetime | None] | None = None
    """Begin and end of the outage, as the last line above entries has them."""
    told: set[datetime | None] = field(default_factory=set)
    """The begin of each outage of which something was told; None: of one that is not known."""
    remarks: set[tuple[Any, ...]] = field(default_factory=set)
    """What was said beside the entries."""

    def is_new(self, position: int, entry: StoryEntry) -> bool:
        """Report whether an entry was not told yet; then it is."""
        said = (entry.at, entry.kind, entry.name, entry.key)
        before, self.entries[position] = self.entries.get(position), said
        return before != said

    def is_new_remark(self, *remark: Any) -> bool:
        """Report whether a remark was not made yet; then it is."""
        is_new = remark not in self.remarks
        self.remarks.add(remark)
        return is_new


@dataclass(slots=True)
class StoryBuilder:
    """State kept between two events."""

    state: StoryState = field(default_factory=StoryState)
    asked: dict[int | str, AskedActivity] = field(default_factory=dict)
    """By the id of the event that scheduled it, or by its key if it began while Temporal was away."""
    told_by_node: set[int | str] = field(default_factory=set)
    """Those that the node did in an outage: its story tells how they ended."""
    identity: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    updates: dict[str, str] = field(default_factory=dict)
    """Update id -> name."""
    waits: Waits = field(default_factory=Waits)
    outages: ToldOutages = field(default_factory=ToldOutages)
    containers_before: dict[str, ContainerStory] = field(default_factory=dict)
    """What was known of the containers when the latest run began."""
    gone: str = ""
    """How the pod's end was told, if the pod has not begun anew since."""
    handed_back: HandBack | None = None
    """As the latest run has it."""
