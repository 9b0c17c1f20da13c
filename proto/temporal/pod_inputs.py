"""What others want of a pod or say of it, as a pod's workflow remembers it: parts of `pod.Observed`.

Apart from what the runtime tells: a wish or a word of somebody, with when it came. Fields are only ever added, each with a
default.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(slots=True)
class Deletion:
    """Somebody wants the pod gone; the shortest grace asked so far counts."""

    requested_at: datetime
    grace: timedelta
    reason: str
    message: str = ""
    grace_asked_at: datetime | None = None
    """When that grace was asked for; None: with the deletion itself."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """An operator wants the stop of a pod that goes to be over sooner."""

    at: datetime
    grace: timedelta
    """Counts from then."""
    operator: str


@dataclass(slots=True)
class Eviction:
    """This node ends the pod though its source wants it: what status.reason and status.message say once it has ended."""

    at: datetime
    reason: str
    message: str
    grace: timedelta | None = None
    """None: the pod's own."""
    disrupts: bool = False
    """It is for the node's sake and not the pod's own limit: the pod has the condition DisruptionTarget."""


@dataclass(frozen=True, slots=True)
class GivenCondition:
    """A condition of the pod that somebody else judges, as it was said last: a readiness gate's, for example."""

    status: str
    """True, False or Unknown."""
    since: datetime
    """When it took that status: lastTransitionTime."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The API shows a final phase of the pod, which never turns back."""

    phase: str
    """Succeeded or Failed."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why this node does not take a pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class FirstSight:
    """What was known of a pod when its workflow was started, besides what it is: what the API's status says, and the node."""

    ended: Ended | None = None
    rejected: Rejected | None = None
    """This node does not take it (`decide/node_admission.py`)."""
    started_at: datetime | None = None
    """status.startTime, where the pod had begun before."""
    deleted: bool = False
    """It was to go already, so nothing of it is begun any more."""
    grace: timedelta | None = None
    """Of that deletion."""
    conditions: dict[str, GivenCondition] = field(default_factory=dict)
