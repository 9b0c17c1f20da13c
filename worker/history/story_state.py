"""What a story is made of: its lines, what it has state already, and how it says a duration.

Filled by `story` as it walks the events, read and written by the sentences of each kind (`sentences`, `container_sentences`).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from proto.temporal.pod import NodeSettings, PodJson
from proto.temporal.requests import RuntimeContainer, ShortenStop
from workflows.decide.containers.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a story."""

    at: datetime
    since_start: timedelta
    text: str
    event_id: int = 0
    run: int = 1
    """Counted from 1; continue-as-new begins the next."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An activity that has not answered yet; its tries are no part of a history, Temporal tells them apart."""

    activity_id: str
    what: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Story:
    """What happened, and what is happening."""

    lines: tuple[Line, ...] = ()
    under_way: tuple[UnderWay, ...] = ()
    ended_at: datetime | None = None
    """When the workflow ended, for good."""


@dataclass(slots=True)
class ContainerStory:
    """What the story knows of one container: how its newest instance ended, and what its restarts have earned."""

    container_id: str = ""
    sandbox_id: str = ""
    end: RuntimeContainer | None = None
    """The newest instance's end."""
    stopped_because: str = ""
    """Set where that end was our doing."""
    shortened: ShortenStop | None = None
    """The shortest grace that a stop under way was state, whether or not that stop has answered yet."""
    backoff: Backoff = field(default_factory=Backoff)
    spec: PodJson = field(default_factory=dict)
    """Its part of the pod, as the newest instance was started with."""
    restarted_for: str = ""
    """The container whose end let all start again, this one too."""
    skipped_by: str = ""
    """The operator who ended the wait that this end had earned."""


@dataclass(slots=True)
class StoryState:
    """What the story has said of containers and sandboxes, so that each end is state once."""

    ended: set[str] = field(default_factory=set)
    containers: dict[str, ContainerStory] = field(default_factory=dict)
    """By name."""
    ready_sandboxes: set[str] = field(default_factory=set)
    pod: PodJson = field(default_factory=dict)
    """As its source wrote it, with every edit that it has taken over."""
    phase: str = ""
    deletion: bool = False
    deleted_by: dict[str, str] = field(default_factory=dict)
    """A deletion's reason and message, as a stop repeats them -> who asked: a source, an operator."""
    settings: NodeSettings = field(default_factory=NodeSettings)

    def of(self, name: str) -> ContainerStory:
        """What is known of a container."""
        return self.containers.setdefault(name, ContainerStory())


@dataclass(frozen=True, slots=True)
class CompletedActivity:
    """An activity that was carried out."""

    asked: Any
    answer: Any
    at: datetime
    """When it was asked for."""
    took: timedelta


def seconds(duration: timedelta) -> str:
    """Say a duration with as many digits as a reader can use."""
    total = duration.total_seconds()
    if total < 10:
        return f"{total:.2f} s"
    if total < 120:
        return f"{total:.1f} s"
    minutes, rest = divmod(round(total), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
