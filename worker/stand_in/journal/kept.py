"""The types of the journal: what is kept of a workflow, and what is read back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from activities.files.pod_paths import plain_name
from proto.temporal.away import StoryEntry
from proto.temporal.names import PodWorkflowId
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodOutcome, PodStart

Start = PodStart | NodeStart
"""The input of a pod's workflow, or of the node's."""
_NODE: Final = "_node"
"""The folder of the node's own workflow; no UID that can be part of a path begins like this."""


class NotAppended(Exception):
    """An entry is not in the journal; the message says why."""


class NotKept(Exception):
    """A workflow cannot be in the journal; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in Temporal a workflow was, as far as this node has seen it committed."""

    namespace_id: str = ""
    run_id: str = ""
    length: int = 0
    """Events in the history of the run."""
    at: datetime | None = None
    """When the workflow task began whose start is the last of them, by Temporal's clock."""


@dataclass(frozen=True, slots=True)
class NumberedEntry:
    """An entry of a story, with its position."""

    position: int
    entry: StoryEntry


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a story had no room for."""

    position: int = 0
    """The last one that was only counted."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many entries, by kind."""
    is_full: bool = False
    """No further entry is stored."""


@dataclass(frozen=True, slots=True)
class Story:
    """What happened to a pod while Temporal was away, in order."""

    entries: tuple[NumberedEntry, ...] = ()
    left_out: LeftOut = LeftOut()
    unreadable: int = 0
    """Records that are damaged, or that this node did not write."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the journal has of one workflow."""

    workflow_id: str
    start: Start
    """What its next run would have been started with."""
    place: Place = Place()
    folded: int = 0
    """The entries up to this position are in `start` already."""
    tail: Story = Story()
    """The entries after it."""

    @property
    def is_complete(self) -> bool:
        """No entry after `folded` is missing: state and tail are all that was known."""
        return not self.tail.unreadable and self.tail.left_out.position <= self.folded


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A pod that is gone, and how it ended."""

    uid: str
    workflow_id: str
    at: datetime
    outcome: PodOutcome | None = None
    """None if it is not known."""
    lives_again: bool = False
    """The pod was started again afterwards: it is not gone."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """All that was read when the process started."""

    kept: tuple[Kept, ...] = ()
    gone: Mapping[str, Tombstone] = field(default_factory=dict)
    """By workflow id."""
    unreadable: tuple[str, ...] = ()
    """The names of folders that were left out: UIDs of pods."""


def folder_of(workflow_id: str) -> str:
    """Return the name of a workflow's folder; raises ValueError or UnsafeName for one that has none."""
    if is_node(workflow_id):
        return _NODE
    return plain_name(PodWorkflowId.parse(workflow_id).uid, "the UID")


def is_node(workflow_id: str) -> bool:
    """Say whether it is the workflow of the node itself."""
    return workflow_id.startswith("node/")
