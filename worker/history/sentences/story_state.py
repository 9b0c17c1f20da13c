"""The lines of a story, what it has already reported, and how durations are written.

Filled by `story` while it reads events; read and written by the sentence modules.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from proto.temporal.activities.requests import RuntimeContainer, ShortenStop
from proto.temporal.pod import NodeSettings, PodJson, ProbeKind
from proto.temporal.signals import ProbeVerdict
from workflows.decide.containers.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a story."""

    at: datetime
    since_start: timedelta
    text: str
    event_id: int = 0
    run: int = 1
    """Number of the workflow run, from 1; continue-as-new starts the next one. 0: only the node's journal has it."""
    while_away: bool = False
    """It happened while Temporal was away, so its time is the node's."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An activity that has not completed. Its attempts are not in the history; Temporal reports them separately."""

    activity_id: str
    what: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Story:
    """What happened, and what is in progress."""

    lines: tuple[Line, ...] = ()
    under_way: tuple[UnderWay, ...] = ()
    ended_at: datetime | None = None
    """When the workflow closed for good."""


@dataclass(slots=True)
class ContainerStory:
    """What the story knows of one container: how its newest instance ended, and its back-off."""

    container_id: str = ""
    sandbox_id: str = ""
    is_starting: bool = False
    """A start was asked for that has no answer yet."""
    end: RuntimeContainer | None = None
    """The newest instance's end."""
    stopped_because: str = ""
    """Set if tempolet stopped it."""
    shortened: ShortenStop | None = None
    """The stop under way with the shortest grace period, whether or not that stop has completed."""
    backoff: Backoff = field(default_factory=Backoff)
    spec: PodJson = field(default_factory=dict)
    """Its part of the pod, as its newest instance was started."""
    restarted_for: str = ""
    """Name of the container whose exit restarted all containers."""
    skipped_by: str = ""
    """The operator who skipped the back-off of this end."""
    before: "ContainerStory | None" = None
    """What was known when the newest instance was first told of: why it was started. Its end may be told before its start."""
    prepared: set[bytes] = field(default_factory=set)
    """Digests of the preStart hooks that were reported since a start of it failed."""


@dataclass(slots=True)
class StoryState:
    """What the story has reported of containers and sandboxes, so that each end is reported once."""

    ended: set[str] = field(default_factory=set)
    containers: dict[str, ContainerStory] = field(default_factory=dict)
    """By name."""
    started: set[str] = field(default_factory=set)
    """Ids of containers of which a start was reported."""
    verdicts: dict[tuple[str, ProbeKind], ProbeVerdict] = field(default_factory=dict)
    """The newest of each probe, by the container's id."""
    ready_sandboxes: set[str] = field(default_factory=set)
    pod: PodJson = field(default_factory=dict)
    """As written by its source, with every edit applied so far."""
    phase: str = ""
    deletion: bool = False
    deletions: set[str] = field(default_factory=set)
    """The requests that were reported: every sender repeats its own after a switch between Temporal and the node."""
    deleted_by: dict[str, str] = field(default_factory=dict)
    """Reason and message of a deletion, as repeated by each stop -> who asked: a source or an operator."""
    outcomes: dict[bytes, tuple[datetime, bool]] = field(default_factory=dict)
    """By a digest of request and answer when an action was reported, and whether by the story of an outage; see `is_new_outcome`."""
    resize_pending: tuple[str, int | None] | None = None
    """The resize that was last reported as not granted: its reason, and the generation that asks for it."""
    settings: NodeSettings = field(default_factory=NodeSettings)
    never_was_here: bool = False
    """The node rejected the pod when it came: what is undone to be sure was never done."""
    behaviour: int = 0
    """That of the run before; 0: there was none."""

    def of(self, name: str) -> ContainerStory:
        """Return what is known of a container."""
        return self.containers.setdefault(name, ContainerStory())

    def is_new_preparation(self, name: str, told: bytes) -> bool:
        """Report whether the success of a preStart hook was not told yet; then it is. It runs again only after a start that failed."""
        known = self.of(name).prepared
        is_new = told not in known
        known.add(told)
        return is_new

    def is_new_outcome(self, told: bytes, begun_at: datetime, ended_at: datetime, *, is_entry: bool) -> bool:
        """Report whether an action's end was not told yet; then it is.

        Of what was under way when Temporal went away, both learn the end: the workflow from the worker, once Temporal is back, and
        the node, whose story has it too. The same action at another time is another one.
        """
        before, by_entry = self.outcomes.get(told, (begun_at, False))
        self.outcomes[told] = (ended_at, is_entry)
        return before <= begun_at or not (is_entry or by_entry)


@dataclass(frozen=True, slots=True)
class CompletedActivity:
    """A completed activity."""

    asked: Any
    answer: Any
    at: datetime
    """When it was scheduled."""
    took: timedelta


def seconds(duration: timedelta) -> str:
    """Format a duration with the digits that a reader can use."""
    total = duration.total_seconds()
    if total < 10:
        return f"{total:.2f} s"
    if total < 120:
        return f"{total:.1f} s"
    minutes, rest = divmod(round(total), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
