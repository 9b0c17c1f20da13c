"""What happened to a pod while Temporal was away, and the pod's state when it is handed back to its workflow.

The node's own process leads the pods while Temporal is away, and keeps a journal of what it does. Afterwards it sends the
journal's entries to the pod's workflow, as signals, so that the history has them, and then the pod's state. The same is done
for the node's own workflow. Times are the node's, as aware UTC datetimes. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from proto.temporal.node import NodeObserved
from proto.temporal.pod import Observed, PodJson
from proto.temporal.pod_inputs import CarriedAction

STORY_BYTES: Final = 64 * 1024
"""The most that the entries of one WhileAway may have, as JSON."""
STORY_SIGNALS: Final = 20
"""The most signals that tell one outage; what they have no room for is counted in `left_out`."""


class EntryKind(StrEnum):
    """What an entry is about."""

    SCHEDULED = "scheduled"
    """An action began; the value is its request. An action that was under way before needs no such entry."""
    COMPLETED = "completed"
    """An action has an answer, which is the value. A read that took no time needs no SCHEDULED before."""
    FAILED = "failed"
    """An action has failed, with this reason and message."""
    CANCELLED = "cancelled"
    """An action was cancelled."""
    SIGNALLED = "signalled"
    """A signal arrived, which is the value; the name is the signal's."""
    UPDATED = "updated"
    """An Update was answered; the value is the answer, the name is the Update's."""
    WAITED = "waited"
    """A wait began; the name is its summary, the value its seconds."""
    PUBLISHED = "published"
    """Search attributes changed; the value has the new ones by name."""


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """One thing that happened while Temporal was away: what an event of the history says otherwise."""

    at: datetime
    kind: EntryKind
    name: str = ""
    """The activity's, the signal's or the Update's (`names.py`)."""
    key: str = ""
    """The action's, which is its activity's id."""
    value: Any = None
    """A request, an answer or a signal; read as JSON. None also if it was too large."""
    reason: str = ""
    message: str = ""
    attempts: int = 1
    """The attempts of the action, if it has ended."""
    last_failure: str = ""
    """Why the attempt before the last one failed: its reason and message."""


@dataclass(frozen=True, slots=True)
class WhileAway:
    """A part of the story of one outage; sent again, it has the same positions.

    A run that has received it decides nothing more, until the pod is handed back.
    """

    epoch: int
    """That of the HandedBack which follows."""
    first: int
    """The position of the first entry in the pod's journal; the others follow without a gap."""
    entries: tuple[StoryEntry, ...] = ()
    left_out: int = 0
    """In the last part: how many entries follow that there was no room for."""
    since: datetime | None = None
    """When Temporal was found to be away."""
    until: datetime | None = None
    """When it was found to be back."""
    incarnation: str = ""
    """As that of HandedBack."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The pod's state after an outage: the run continues as new with it, before it decides anything else."""

    epoch: int
    """Of the next run. A signal with an epoch that the run has or has passed is ignored."""
    since: datetime
    until: datetime
    observed: Observed
    pod: PodJson
    """As its source wrote it, with the edits in place of the meantime."""
    entries: int = 0
    """How many entries the story has, with those that were left out."""
    under_way: tuple[CarriedAction, ...] = ()
    """Actions that go on, which the next run begins again: pulls, hooks."""
    position: int = 0
    """That of the newest entry in the story; 0 if it has none."""
    incarnation: str = ""
    """The life of the pod that it belongs to, as in its ticket: a later one under the same workflow id ignores it. Empty in older ones."""


@dataclass(frozen=True, slots=True)
class NodeHandedBack:
    """The state of the node's images after an outage, in the signal HandedBack of the node's workflow; as for a pod."""

    epoch: int
    since: datetime
    until: datetime
    observed: NodeObserved
    entries: int = 0
    position: int = 0
    incarnation: str = ""
