"""What poller, probes and operators tell a pod's workflow: past tense, level-triggered, harmless when repeated or late."""

from dataclasses import dataclass, field
from datetime import timedelta

from proto.temporal.pod import PodJson, ProbeKind
from proto.temporal.pod_inputs import Ended, GivenCondition


@dataclass(frozen=True, slots=True)
class PodListed:
    """The source lists this pod (the only signal that may start a workflow)."""

    source: str
    sequence: int = 0
    pod: PodJson | None = None
    """Set only when it differs from what the workflow was started with."""
    in_place: bool = False
    """Take over in place what Kubernetes changes in place; False: another pod replaces the one that was edited."""


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """The pod shall go: its manifest was removed or replaced, or its object deleted."""

    source: str
    reason: str
    message: str = ""
    grace: timedelta | None = None
    """None: the pod's own terminationGracePeriodSeconds."""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class RuntimeChanged:
    """The runtime seems to know something new of this pod; the workflow re-reads it."""

    source: str
    """event, relist, resync or restart."""
    sequence: int = 0
    exited: tuple[str, ...] = ()
    """Container ids that ended, as far as the poller saw; a workflow that knows of all of them need not re-read."""
    sandbox_lost: bool = False


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """The verdict of a probe has turned, or is reached for the first time."""

    container: str
    container_id: str
    probe: ProbeKind
    success: bool
    message: str = ""
    """What the probe that turned it came back with."""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class ObjectsChanged:
    """Objects that the pod refers to have other versions now than it shows; of their content nothing is told."""

    source: str
    versions: dict[str, str] = field(default_factory=dict)
    """By `<plural>/<name>`; empty: there is none of that name any more."""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class StorageExceeded:
    """The pod holds more on the node's disk than it may, as it was counted."""

    source: str
    empty_dir: str = ""
    """The volume that does."""
    used_bytes: int = 0
    container: str = ""
    """The container that does; neither: the pod as a whole."""


@dataclass(frozen=True, slots=True)
class StatusGiven:
    """Others have written into the pod's status: what its readiness waits for, or that it has ended."""

    source: str
    sequence: int = 0
    conditions: dict[str, GivenCondition] = field(default_factory=dict)
    """All of the types that concern this node, by type; one that is missing is set no more."""
    ended: Ended | None = None
