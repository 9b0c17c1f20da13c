"""Requests and statements about a pod from outside its workflow, with their times; parts of `pod.Observed`.

Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any


@dataclass(slots=True)
class Deletion:
    """The pod is to be deleted; the shortest grace period asked for so far applies."""

    requested_at: datetime
    grace: timedelta
    reason: str
    message: str = ""
    grace_asked_at: datetime | None = None
    """When that grace period was asked for; None: with the deletion itself."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """An operator shortens the grace period of a terminating pod."""

    at: datetime
    grace: timedelta
    """Counts from `at`."""
    operator: str


@dataclass(slots=True)
class Eviction:
    """This node ends the pod although its source wants it: status.reason and status.message once it has ended."""

    at: datetime
    reason: str
    message: str
    grace: timedelta | None = None
    """None for the pod's own."""
    disrupts: bool = False
    """The eviction relieves the node, and not because of the pod's own limit: the pod gets the condition DisruptionTarget."""
    why: str = ""
    """Why this pod and not another, if the node has chosen it."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Of its event."""
    preempted_for: str = ""
    """Namespace and name of the critical pod that needs its room, if that is the cause."""
    may_succeed: bool = False
    """The pod has succeeded if all its containers exit with 0: status.reason and status.message are then empty."""


@dataclass(frozen=True, slots=True)
class GivenCondition:
    """A condition that others decide, as it was last set; for example a readiness gate's."""

    status: str
    """True, False or Unknown."""
    since: datetime
    """When it took that status: lastTransitionTime."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The API shows a final phase of the pod, which never changes."""

    phase: str
    """Succeeded or Failed."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why this node rejects a pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class FirstSight:
    """What was known of a pod when its workflow was started: what the API's status says, and whether the node admits it."""

    ended: Ended | None = None
    rejected: Rejected | None = None
    """This node does not admit it (`workflows/decide/node/node_admission.py`)."""
    started_at: datetime | None = None
    """status.startTime, if the pod had begun before."""
    deleted: bool = False
    """It was deleted already, so nothing of it is started."""
    grace: timedelta | None = None
    """The grace period of that deletion."""
    conditions: dict[str, GivenCondition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CarriedAction:
    """An action that was under way when a run continued as new; the next run begins it again with the same request."""

    name: str
    """The activity's."""
    request: Any
    """A request of `activities/`; read as JSON."""


@dataclass(frozen=True, slots=True)
class HandBack:
    """When the node last led a pod without Temporal; its runs carry this for the card and for `tempolet explain`."""

    since: datetime
    until: datetime
    entries: int = 0
    """How many entries the story of that time has, with those that were left out."""
    position: int = 0
    """The position of the newest of them: the history has them up to this one, and they need not be told again."""
