"""What an operator asks a pod's workflow, and what it answers: an Update, which history keeps, and a query, which it does not.

Sent by the commands of `worker/commands/`. Texts are ours and end without a full stop; a time stands beside its text, so
that the reader says it in his own zone and as a distance from his own now.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from proto.temporal.pod import PodJson


@dataclass(frozen=True, slots=True)
class SkipBackoff:
    """Wait no longer: restart a container that is in CrashLoopBackOff, pull an image that is in ImagePullBackOff."""

    operator: str
    """Who asks: user@host."""
    container: str = ""
    """Only this one; empty means every one that waits."""


@dataclass(frozen=True, slots=True)
class SkippedBackoff:
    """One wait that is over before its time."""

    container: str
    reason: str
    """CrashLoopBackOff, or why the image was not to be had."""
    left: timedelta
    """What it would have waited for still."""
    image: str = ""
    """Set where it is the image that is waited for."""
    attempt: int = 0
    """The restart that was waited for, where it is a container."""
    about: str = ""
    """The key of what waited, as actions have it."""

    def __str__(self) -> str:
        return (
            f"{self.reason}: "
            + (f"pull {self.image} for" if self.image else f"restart {self.attempt} of")
            + (f" {self.container}")
        )


@dataclass(frozen=True, slots=True)
class BackoffsSkipped:
    """What came of it."""

    operator: str
    skipped: tuple[SkippedBackoff, ...] = ()
    """None when all were over by the time that it was heard."""


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Let the pod have this condition, as one that judges it (a load balancer, a person) says: a readiness gate's."""

    operator: str
    """Who asks: user@host."""
    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ConditionSet:
    """What came of it."""

    operator: str
    type: str
    status: str
    before: str = ""
    """Its status before; empty when it had none."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class StopPod:
    """Let a pod that is going be down sooner; what would take longer changes nothing."""

    operator: str
    """Who asks: user@host."""
    grace: timedelta | None = None
    """From now on; None: the pod's own terminationGracePeriodSeconds, nothing: as soon as can be."""


@dataclass(frozen=True, slots=True)
class PodStops:
    """What came of it."""

    operator: str
    asked: timedelta
    """The grace that was asked for, at least the shortest."""
    grace: timedelta
    """The grace that holds now."""
    kills_at: datetime
    """When SIGKILL falls for what does not go by itself."""
    sooner: timedelta
    """By how much the grace is over earlier than before; nothing where it was to be over by then anyway."""


@dataclass(frozen=True, slots=True)
class AddEphemeralContainer:
    """Start one more container in the running pod, once, to look into it."""

    operator: str
    """Who asks: user@host."""
    container: PodJson
    """As spec.ephemeralContainers has it; what it leaves open is filled in."""


@dataclass(frozen=True, slots=True)
class EphemeralContainerAdded:
    """What was added."""

    operator: str
    pod_uid: str
    container: str
    image: str
    target: str = ""
    """The container whose processes it sees; empty: only its own."""
    waits_for: str = ""
    """What keeps it from being started at once, where that is its target."""


@dataclass(frozen=True, slots=True)
class EvictPod:
    """End the pod for the node's sake; it has failed, and stays so until its source no longer lists it."""

    operator: str
    """Who asks: user@host."""
    reason: str
    """One word for status.reason."""
    message: str = ""
    grace: timedelta | None = None
    """None: the pod's own; never longer than that."""


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """What came of it."""

    operator: str
    reason: str
    message: str
    grace: timedelta
    kills_at: datetime
    """When SIGKILL falls for what does not go by itself."""


class SentenceKind(StrEnum):
    """What a sentence of an explanation is about."""

    STANDS = "stands"
    """Where the pod stands."""
    UNDER_WAY = "underWay"
    """What has begun and not answered yet."""
    WAITS = "waits"
    """What is due at a known time."""
    HELD = "held"
    """What can't begin before something else has come."""
    NEXT = "next"
    """What would happen next."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing that is to be said of a pod."""

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
    """Where a pod stands, what it waits for, and what would happen next."""

    lifecycle: str
    phase: str
    sentences: tuple[Sentence, ...] = ()
