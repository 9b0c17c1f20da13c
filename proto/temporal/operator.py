"""Operators' requests to a pod's workflow and its answers: Updates, which the history records, and a query.

Sent by the commands of `worker/commands/`. Texts end without a full stop. A time is separate from its text, so that the
reader shows it in the local time zone and as a distance from now.

`source` and `sequence` name a request, so that one that comes twice is recognized: requests have no order, so the number is a
random one. Requests of earlier releases have none (0).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from proto.temporal.pod import PodJson

GOING: Final = "Going"
"""Why a pod that is terminating already rejects an eviction."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an Update would be rejected."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SkipBackoff:
    """End a wait: restart a container in CrashLoopBackOff, pull an image in ImagePullBackOff."""

    operator: str
    """Who asks: user@host."""
    container: str = ""
    """Only this container; empty for all that wait."""
    source: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class SkippedBackoff:
    """One wait that was ended."""

    container: str
    reason: str
    """CrashLoopBackOff, or why the image is missing."""
    left: timedelta
    """How much longer it would have waited."""
    image: str = ""
    """Set if it waited for an image."""
    attempt: int = 0
    """The restart it waited for, if it is a container."""
    about: str = ""
    """The key of the action that waited."""

    def __str__(self) -> str:
        return (
            f"{self.reason}: "
            + (f"pull {self.image} for" if self.image else f"restart {self.attempt} of")
            + (f" {self.container}")
        )


@dataclass(frozen=True, slots=True)
class BackoffsSkipped:
    """The answer of SkipBackoff."""

    operator: str
    skipped: tuple[SkippedBackoff, ...] = ()
    """Empty if all waits were over by then."""


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Set a condition that others judge (a load balancer, a person), such as a readiness gate's."""

    operator: str
    """Who asks: user@host."""
    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""
    source: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class ConditionSet:
    """The answer of SetCondition."""

    operator: str
    type: str
    status: str
    before: str = ""
    """Its status before; empty if it had none."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class StopPod:
    """Shorten the grace period of a terminating pod; a longer one changes nothing."""

    operator: str
    """Who asks: user@host."""
    grace: timedelta | None = None
    """From now on; None for the pod's own terminationGracePeriodSeconds, zero for as soon as possible."""
    source: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class PodStops:
    """The answer of StopPod."""

    operator: str
    asked: timedelta
    """The grace period that was asked for, at least the shortest."""
    grace: timedelta
    """The grace period that now applies."""
    kills_at: datetime
    """When containers that have not ended are sent SIGKILL."""
    sooner: timedelta
    """How much earlier the grace period is over than before; zero if it was to be over by then anyway."""


@dataclass(frozen=True, slots=True)
class AddEphemeralContainer:
    """Add an ephemeral container to the running pod."""

    operator: str
    """Who asks: user@host."""
    container: PodJson
    """As in spec.ephemeralContainers; defaults are applied."""
    source: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class EphemeralContainerAdded:
    """The answer of AddEphemeralContainer."""

    operator: str
    pod_uid: str
    container: str
    image: str
    target: str = ""
    """The container whose processes it sees; empty for only its own."""
    waits_for: str = ""
    """Why its target is not available yet, if so."""


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict the pod to relieve the node: it fails, and stays failed until its source no longer lists it."""

    operator: str
    """Who asks: user@host; empty if the node itself does, because it is under pressure."""
    reason: str
    """One word for status.reason."""
    message: str = ""
    grace: timedelta | None = None
    """None for the pod's own; never longer than that."""
    source: str = ""
    sequence: int = 0
    why: str = ""
    """Why this pod and not another, if the node has chosen it."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Of its event."""
    shutdown: bool = False
    """The machine goes down: pods of the system end, too."""
    preempted_for: str = ""
    """Namespace and name of the critical pod that needs its room: a pod of the system with a lower priority ends, too."""
    disrupts: bool = True
    """The node is relieved. False: it could not admit the pod again, which is no disruption."""


OperatorRequest = SkipBackoff | SetCondition | StopPod | EvictPod | AddEphemeralContainer
"""What an operator asks by an Update."""


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """The answer of EvictPod."""

    operator: str
    reason: str
    message: str
    grace: timedelta
    kills_at: datetime
    """When containers that have not ended are sent SIGKILL."""
    why: str = ""
    """Why this pod and not another, if the node has chosen it."""


class SentenceKind(StrEnum):
    """What a sentence of an explanation is about."""

    STANDS = "stands"
    """The pod as a whole."""
    UNDER_WAY = "underWay"
    """An action that has begun and not answered yet."""
    WAITS = "waits"
    """Something due at a known time."""
    HELD = "held"
    """Something that cannot begin before something else."""
    NEXT = "next"
    """What would happen next."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement about a pod."""

    kind: SentenceKind
    text: str
    about: str = ""
    """The key of the action that it is about, which is also its activity's id."""
    at: datetime | None = None
    """When that is due."""
    because: str = ""
    remedy: str = ""
    """What an operator may do about it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of the query Explain."""

    lifecycle: str
    phase: str
    sentences: tuple[Sentence, ...] = ()
    led_because: str = ""
    """Why the node leads the pod itself; empty if Temporal does."""
    lacks_claims: bool = False
    """Its ResourceClaims are not prepared for the sandbox that comes next, though the node may know them for the pod."""
    over: tuple[str, ...] = ()
    """Names of the init containers that have ended for good."""
