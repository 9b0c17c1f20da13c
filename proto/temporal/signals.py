"""Signals to a pod's workflow: past tense, level-triggered, harmless when repeated or late.

`sequence` increases in the process that sends; two signals with one number are one signal that came twice. `sender` is that
process (poller, worker). Releases that did not recognize duplicates left it empty, so their histories replay as they were.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from proto.temporal.node import NodeNews
from proto.temporal.pod import PodJson, ProbeKind
from proto.temporal.pod_inputs import Ended, GivenCondition
from proto.temporal.resources import ResizeVerdict

REBOOT: Final = "reboot"
"""Source of the first signal to a pod after its machine was restarted."""


@dataclass(frozen=True, slots=True)
class PodListed:
    """The source lists this pod; the only signal that may start a workflow."""

    source: str
    sequence: int = 0
    pod: PodJson | None = None
    """Set only if it differs from what the workflow was started with."""
    in_place: bool = False
    """Apply the changes that Kubernetes allows in place; False: another pod replaces an edited one."""
    sender: str = ""
    resize: ResizeVerdict | None = None
    """What the node has decided about the resources that the source asks for; None: the pod's workflow decides, as for
    releases that decided about a pod without looking at the others."""


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """The pod's manifest was removed or replaced, or its object was deleted."""

    source: str
    reason: str
    message: str = ""
    grace: timedelta | None = None
    """None for the pod's own terminationGracePeriodSeconds."""
    sequence: int = 0
    sender: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeChanged:
    """The runtime may know something new of this pod; the workflow re-reads it."""

    source: str
    """event, relist, resync, restart (of the poller) or reboot (of the machine)."""
    sequence: int = 0
    exited: tuple[str, ...] = ()
    """Ids of containers that ended, as far as the poller saw; if the workflow knows all of them, it need not re-read."""
    sandbox_lost: bool = False
    sender: str = ""


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """The verdict of a probe has changed, or is the first."""

    container: str
    container_id: str
    probe: ProbeKind
    success: bool
    message: str = ""
    """The output of the probe that changed it."""
    sequence: int = 0
    turns: int = 1
    """How often the verdict changed since the last signal: more than once if the probe flaps."""


@dataclass(frozen=True, slots=True)
class ObjectsChanged:
    """Objects that the pod refers to have new versions; their content is not included."""

    source: str
    versions: dict[str, str] = field(default_factory=dict)
    """By `<plural>/<name>`; empty if there is no object of that name."""
    sequence: int = 0
    sender: str = ""


@dataclass(frozen=True, slots=True)
class StorageExceeded:
    """The pod exceeds one of its limits of local storage."""

    source: str
    empty_dir: str = ""
    """The volume that exceeds its limit."""
    used_bytes: int = 0
    container: str = ""
    """The container that exceeds its limit; neither: the pod as a whole."""
    sequence: int = 0
    sender: str = ""


@dataclass(frozen=True, slots=True)
class PressureJudged:
    """What the node has decided under pressure without a victim, for its workflow."""

    news: tuple[NodeNews, ...] = ()
    sequence: int = 0
    sender: str = ""


@dataclass(frozen=True, slots=True)
class StatusGiven:
    """Others have written into the pod's status: conditions that its readiness needs, or a final phase."""

    source: str
    sequence: int = 0
    conditions: dict[str, GivenCondition] = field(default_factory=dict)
    """By type, all that concern this node; one that is missing is no longer set."""
    ended: Ended | None = None
    sender: str = ""


@dataclass(frozen=True, slots=True)
class BehaviourCommitted:
    """The node is committed to a behaviour; a run of an older one continues as new with it, once nothing is under way."""

    behaviour: int
    """A number of the workflow's type; never higher than the newest one that the sending worker knows."""
