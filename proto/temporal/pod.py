"""What a pod's workflow is started with, remembers and leaves behind.

`Observed` is the one place for everything that must outlive a run (style §2): continue-as-new carries it whole, the
node's cache is a copy of it, `decide/` reads nothing else but the pod and `now`. Times are aware UTC datetimes; ids are
the runtime's, in full. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from proto.temporal.hooks import HookOutcome
from proto.temporal.mounted import VolumesFacts
from proto.temporal.pod_inputs import Deletion, Ended, Eviction, FirstSight, GivenCondition, Shortening
from proto.temporal.resources import Allocatable, PendingResize, Resize, RuntimeResources

PodJson = dict[str, Any]
"""A pod as its source wrote it: camelCase keys, nulls left out (design §4.14)."""


@dataclass(frozen=True, slots=True)
class PodKey:
    """Which pod; all that most activities need to know of it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Lifecycle(StrEnum):
    """The kubelet pod worker's three states (pkg/kubelet/pod_workers.go)."""

    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class ContainerState(StrEnum):
    """A container's state in the runtime, the CRI's words."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


class ProbeKind(StrEnum):
    """What a probe asks of a container."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"

    @property
    def field(self) -> str:
        """The container's field that describes it."""
        return f"{self.value}Probe"


@dataclass(frozen=True, slots=True)
class ProbeFact:
    """What a probe has found of the newest instance, since its verdict last turned."""

    success: bool
    message: str = ""
    sequence: int = 0
    """Each turn of the verdict has the next number; one that comes after a newer one is too late."""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What of the node's configuration decides about pods; set by the poller, so a replay sees the same."""

    max_container_restart_period: timedelta = timedelta(seconds=300)
    """KubeletConfiguration crashLoopBackOff.maxContainerRestartPeriod."""
    image_backoff_initial: timedelta = timedelta(seconds=10)
    image_backoff_max: timedelta = timedelta(seconds=300)
    host_ips: tuple[str, ...] = ()
    container_stop_signals: bool = False
    """The feature gate ContainerStopSignals."""
    allocatable: Allocatable | None = None
    """None: not known, and every resize fits."""
    kernel: str = ""
    """The first two numbers of its release, on which hangs which sysctls are safe; empty: not known."""
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    """KubeletConfiguration allowedUnsafeSysctls."""
    apparmor: bool = False
    """The machine can confine by AppArmor."""
    image_volume_with_digest: bool = False
    """The feature gate ImageVolumeWithDigest."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How one run of a container ended; once known it is never overwritten by a guess."""

    container_id: str
    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LinuxUser:
    """As whom a container's first process was begun."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(slots=True)
class ContainerFacts:
    """What is known of one container of the pod, by its name in the spec."""

    attempt: int = 0
    """The attempt of the newest instance; equals the restart count."""
    container_id: str = ""
    sandbox_id: str = ""
    state: ContainerState | None = None
    image_ref: str = ""
    """Digest or id as status.imageID shows it."""
    image: str = ""
    """The image's name as the runtime reports it."""
    stop_signal: str = ""
    """What the runtime says that it stops it with; empty where it says nothing (containerd before 2.3)."""
    user: LinuxUser | None = None
    """As whom the newest instance runs; None: the runtime does not say."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    exit: Exit | None = None
    """Set once the newest instance has ended."""
    last_exit: Exit | None = None
    """The ending before the newest instance: status.lastState."""
    backoff: timedelta | None = None
    """The delay that the last restart earned; None before any."""
    backoff_at: datetime | None = None
    """When that restart was begun; ten minutes later it is forgotten."""
    skipped_at: datetime | None = None
    """When an operator ended the wait that the newest instance's end has earned."""
    failure_reason: str = ""
    """Why the newest try to start it did not come to run (CreateContainerError, RunContainerError …)."""
    failure_message: str = ""
    failed_at: datetime | None = None
    done_in_sandbox: str = ""
    """Init containers: the sandbox in which it succeeded; never inferred from what CRI still remembers."""
    stop_reason: str = ""
    """Who stopped it and why, when we did."""
    probes: dict[ProbeKind, ProbeFact] = field(default_factory=dict)
    """What its probes have found; nothing of a probe that has not come to a verdict yet."""
    post_start: HookOutcome | None = None
    pre_stop: HookOutcome | None = None
    pre_start: HookOutcome | None = None
    post_stop: HookOutcome | None = None
    resources: RuntimeResources | None = None
    """What the runtime said of the newest instance after its resize; None when it was never resized."""
    hash: str = ""
    """Of the name and image that the newest instance was made with (proto/kubernetes/container_hash.py)."""
    outdated: bool = False
    """It lived when the spec wanted another image: it is stopped, and started again whatever its restartPolicy."""


@dataclass(slots=True)
class ImageFacts:
    """What is known of one image that the pod names."""

    image_ref: str = ""
    pulled: bool = False
    reason: str = ""
    """ErrImagePull, ImageInspectError, InvalidImageName, ErrImageNeverPull; empty when the last try went well."""
    message: str = ""
    backoff: timedelta | None = None
    failed_at: datetime | None = None
    skipped_at: datetime | None = None
    """When an operator ended the wait that this failure has earned."""


@dataclass(slots=True)
class Sandbox:
    """One sandbox of the pod, as the runtime reports it and as the workflow remembers it."""

    sandbox_id: str = ""
    attempt: int = 0
    ready: bool = False
    ips: tuple[str, ...] = ()
    created_at: datetime | None = None
    stopped: bool = False
    """Known to the workflow only: its network is given back, and it only waits to be removed."""


@dataclass(slots=True)
class Failure:
    """Why a step that is no container's could not be done; shown until it could."""

    reason: str
    message: str
    at: datetime
    tries: int = 1


@dataclass(slots=True)
class Observed:
    """All that a pod's workflow knows; what `decide` is asked about."""

    lifecycle: Lifecycle = Lifecycle.SYNC
    started_at: datetime | None = None
    """When this node first saw the pod: status.startTime."""
    directories: bool = False
    waiting_for: str = ""
    """The predecessor's uid while one of the same full name still exists."""
    sandbox: Sandbox | None = None
    next_sandbox_attempt: int = 0
    old_sandboxes: tuple[str, ...] = ()
    """Sandboxes that are stopped but not yet removed, oldest first."""
    containers: dict[str, ContainerFacts] = field(default_factory=dict)
    dead_containers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Earlier instances that the runtime still keeps, by container name, oldest first."""
    volumes: VolumesFacts | None = None
    """None: not known to be mounted."""
    objects_changed: dict[str, str] = field(default_factory=dict)
    """Hints at other versions of objects that the volumes show, by `<plural>/<name>`."""
    volumes_undone: bool = False
    """Nothing of them is mounted any more, and what they kept for the pod's life is gone."""
    images: dict[str, ImageFacts] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    """By action key."""
    deletion: Deletion | None = None
    eviction: Eviction | None = None
    shortening: Shortening | None = None
    """Of those asked, the one that is over first; how it ends, deletion or eviction, stays as it is."""
    finished_at: datetime | None = None
    """When the pod had nothing left to do: what is still to stop has its grace from here."""
    cleaned: bool = False
    """Nothing of the pod is left on the node."""
    object_deleted: bool = False
    """Of a pod of the API: neither is anything left of it there."""
    heard: dict[str, int] = field(default_factory=dict)
    """The highest sequence heard of each source: a wish that comes after a newer one is too late."""
    listed_pod: PodJson | None = None
    """What the source lists now, where that differs under the same uid: the pod that starts afterwards."""
    listed_again: bool = False
    """The source listed the pod again while it was being deleted: it starts anew afterwards."""
    runtime_stale: bool = False
    """A hint said that the runtime knows more than we do."""
    runtime_stale_again: bool = False
    """Such a hint came while the runtime was being read: what it says may be missing from the answer."""
    starts_in_doubt: bool = False
    """The pod is deleted, and a container may have come up of which we were not told; until the next re-read."""
    unseen: bool = False
    """The pod was here before its workflow began, and the runtime was not asked yet what there is of it."""
    resize: Resize | None = None
    """None: every live container and the pod's cgroup have what the spec says."""
    resize_pending: PendingResize | None = None
    condition_times: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Condition type -> (status, lastTransitionTime)."""
    given_conditions: dict[str, GivenCondition] = field(default_factory=dict)
    """The conditions that others have set, by type."""
    ended: Ended | None = None
    """The API says that the pod has ended, whatever this node knows: it never runs again."""
    signals: int = 0
    """Handled in this run; continue-as-new at 2,000 (design §4.5)."""


@dataclass(frozen=True, slots=True)
class PodStart:
    """The input of PodWorkflow; the poller sets it, continue-as-new carries it on."""

    node: str
    pod: PodJson
    source: str = "file"
    path: str = ""
    """The manifest's path, for the poller's restart and the operator."""
    behaviour: int = 1
    settings: NodeSettings = NodeSettings()
    observed: Observed | None = None
    first_sight: FirstSight | None = None
    """Looked at when `observed` is None."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """What a pod's workflow ends with."""

    phase: str
    reason: str
    restarts: int
    message: str = ""
