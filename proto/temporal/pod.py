"""The types of a pod's workflow: its start, its state and its outcome.

`Observed` is the one place for everything that must outlive a run. Continue-as-new carries it whole, the node's cache
is a copy of it, and `decide/` reads nothing else but the pod and `now`. Times are aware UTC datetimes, ids are the
runtime's full ids. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from proto.temporal.dropped import DroppedSignals
from proto.temporal.hooks import HookOutcome
from proto.temporal.images import ImageFacts
from proto.temporal.mounted import VolumesFacts
from proto.temporal.pod_inputs import (
    CarriedAction,
    Deletion,
    Ended,
    Eviction,
    FirstSight,
    GivenCondition,
    HandBack,
    Shortening,
)
from proto.temporal.resources import Allocatable, PendingResize, Resize, RuntimeResources
from proto.temporal.ticket import UNTICKETED, Ticket

PodJson = dict[str, Any]
"""A pod as its source wrote it: camelCase keys, without nulls."""


@dataclass(frozen=True, slots=True)
class PodKey:
    """The namespace, name and UID of a pod: all that most activities need."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Lifecycle(StrEnum):
    """The three states of the kubelet's pod worker (pkg/kubelet/pod_workers.go)."""

    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class ContainerState(StrEnum):
    """The CRI's states of a container."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


class ProbeKind(StrEnum):
    """The kinds of probes."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"

    @property
    def field(self) -> str:
        """The container's field for the probe."""
        return f"{self.value}Probe"


@dataclass(frozen=True, slots=True)
class ProbeFact:
    """A probe's verdict about the newest instance."""

    success: bool
    message: str = ""
    sequence: int = 0
    """Each change of the verdict has the next number, so that a late signal is recognized."""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The node's configuration that decides about pods; set by the poller, so that a replay uses the same."""

    max_container_restart_period: timedelta = timedelta(seconds=300)
    """KubeletConfiguration crashLoopBackOff.maxContainerRestartPeriod."""
    image_backoff_initial: timedelta = timedelta(seconds=10)
    image_backoff_max: timedelta = timedelta(seconds=300)
    host_ips: tuple[str, ...] = ()
    container_stop_signals: bool = False
    """The feature gate ContainerStopSignals."""
    allocatable: Allocatable | None = None
    """None if not known; then every resize fits."""
    kernel: str = ""
    """The first two numbers of its release, which decide which sysctls are safe; empty if not known."""
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    """KubeletConfiguration allowedUnsafeSysctls."""
    apparmor: bool = False
    """The machine supports AppArmor."""
    selinux: bool = False
    """SELinux is on: mounting needs the labels that containers ask for."""
    image_volume_with_digest: bool = False
    """The feature gate ImageVolumeWithDigest."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How one run of a container ended; once known, never overwritten by a guess."""

    container_id: str
    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LinuxUser:
    """The user of a container's first process."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(slots=True)
class ContainerFacts:
    """What is known of one container of the pod."""

    attempt: int = 0
    """The attempt of the newest instance, which is also the restart count."""
    container_id: str = ""
    sandbox_id: str = ""
    state: ContainerState | None = None
    image_ref: str = ""
    """The digest or id that status.imageID shows."""
    image: str = ""
    """The image's name as the runtime reports it."""
    stop_signal: str = ""
    """As the runtime reports it; empty if it does not (containerd before 2.3)."""
    user: LinuxUser | None = None
    """The user of the newest instance; None if the runtime does not report it."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    exit: Exit | None = None
    """Set once the newest instance has ended."""
    last_exit: Exit | None = None
    """The end before the newest instance: status.lastState."""
    backoff: timedelta | None = None
    """The delay after the last restart; None before any."""
    backoff_at: datetime | None = None
    """When that restart began; ten minutes later the back-off is reset."""
    skipped_at: datetime | None = None
    """When an operator ended the newest instance's back-off."""
    failure_reason: str = ""
    """Why the last start failed (CreateContainerError, RunContainerError …)."""
    failure_message: str = ""
    failed_at: datetime | None = None
    done_in_sandbox: str = ""
    """For init containers: the sandbox in which it succeeded, never inferred from what the runtime still holds."""
    stop_reason: str = ""
    """Who stopped it and why, if the workflow did."""
    probes: dict[ProbeKind, ProbeFact] = field(default_factory=dict)
    """The verdicts of its probes; none for a probe without a verdict yet."""
    post_start: HookOutcome | None = None
    pre_stop: HookOutcome | None = None
    pre_start: HookOutcome | None = None
    post_stop: HookOutcome | None = None
    resources: RuntimeResources | None = None
    """What the runtime reported of the newest instance after a resize; None if it was never resized."""
    hash: str = ""
    """The hash of the newest instance's name and image (proto/kubernetes/container_hash.py)."""
    outdated: bool = False
    """It runs with another image than the spec has: it is stopped, and restarted whatever its restartPolicy."""


@dataclass(slots=True)
class Sandbox:
    """One sandbox of the pod, as the runtime reports it and as the workflow remembers it."""

    sandbox_id: str = ""
    attempt: int = 0
    ready: bool = False
    ips: tuple[str, ...] = ()
    created_at: datetime | None = None
    stopped: bool = False
    """Known to the workflow only: its network is released, and it waits to be removed."""


@dataclass(slots=True)
class Failure:
    """Why an action that is not about a container failed; kept until it succeeds."""

    reason: str
    message: str
    at: datetime
    tries: int = 1


@dataclass(slots=True)
class Observed:
    """All that a pod's workflow knows; the input of `decide`."""

    lifecycle: Lifecycle = Lifecycle.SYNC
    started_at: datetime | None = None
    """When this node first saw the pod: status.startTime."""
    directories: bool = False
    waiting_for: str = ""
    """The UID of a pod with the same full name that still exists."""
    sandbox: Sandbox | None = None
    next_sandbox_attempt: int = 0
    old_sandboxes: tuple[str, ...] = ()
    """Sandboxes that are stopped but not yet removed, oldest first."""
    containers: dict[str, ContainerFacts] = field(default_factory=dict)
    dead_containers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Earlier instances that the runtime still holds, by container name, oldest first."""
    volumes: VolumesFacts | None = None
    """None if not known to be mounted."""
    objects_changed: dict[str, str] = field(default_factory=dict)
    """Signalled versions of objects that the volumes show, by `<plural>/<name>`."""
    volumes_undone: bool = False
    """No volume is mounted any more, and what they kept for the pod's life is gone."""
    claims_for: int | None = None
    """The attempt of the sandbox for which the pod's ResourceClaims are prepared; None: not known to be prepared."""
    claims_undone: bool = False
    """No driver has anything prepared for this pod any more."""
    images: dict[str, ImageFacts] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    """By action key."""
    deletion: Deletion | None = None
    eviction: Eviction | None = None
    shortening: Shortening | None = None
    """The request whose grace period is over first; whether the pod is deleted or evicted stays as it is."""
    finished_at: datetime | None = None
    """When the pod had nothing left to do; the grace period of what is still to stop counts from here."""
    cleaned: bool = False
    """Nothing of the pod is left on the node."""
    object_deleted: bool = False
    """For a pod of the API: its object is deleted."""
    heard: dict[str, int] = field(default_factory=dict)
    """The highest sequence of each source's signals: an older signal is ignored."""
    requests: tuple[int, ...] = ()
    """The numbers of the newest Updates: one that comes again is refused."""
    listed_pod: PodJson | None = None
    """The pod that the source now lists under the same UID, if it differs: it is started afterwards."""
    listed_again: bool = False
    """The source listed the pod again while it was being deleted: it is started afterwards."""
    runtime_stale: bool = False
    """The runtime has to be re-read, because it may know more than this."""
    runtime_stale_again: bool = False
    """A hint came while the runtime was being read: it may be missing from the answer."""
    starts_in_doubt: bool = False
    """A failed start may have created a container, which the next re-read of the runtime finds."""
    unseen: bool = False
    """The pod was here before its workflow began, and the runtime was not read yet."""
    resize: Resize | None = None
    """None if every live container and the pod's cgroup have what the spec says."""
    resize_pending: PendingResize | None = None
    condition_times: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Condition type -> (status, lastTransitionTime)."""
    given_conditions: dict[str, GivenCondition] = field(default_factory=dict)
    """The conditions that others have set, by type."""
    ended: Ended | None = None
    """The API shows a final phase, whatever this node knows: the pod never runs again."""
    signals: int = 0
    """The signals of this run; it continues as new at 2,000, well before Temporal's limit of 10,000."""
    dropped: DroppedSignals | None = None
    """None if no signal was dropped."""


@dataclass(frozen=True, slots=True)
class PodStart:
    """The input of PodWorkflow; the poller sets it, continue-as-new carries it on."""

    node: str
    pod: PodJson
    source: str = "file"
    path: str = ""
    """The manifest's path, for a restarted poller and for operators."""
    behaviour: int = 1
    settings: NodeSettings = NodeSettings()
    observed: Observed | None = None
    first_sight: FirstSight | None = None
    """Read if `observed` is None."""
    under_way: tuple[CarriedAction, ...] = ()
    handed_back: HandBack | None = None
    """None if Temporal was never away in this life."""
    ticket: Ticket = UNTICKETED


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The result of a pod's workflow."""

    phase: str
    reason: str
    restarts: int
    message: str = ""
