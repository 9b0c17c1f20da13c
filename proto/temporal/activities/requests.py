"""Requests and answers of activities.

A request carries the pod's key and the smallest part of the spec that the activity needs, never a secret or a resolved
env value. Answers are facts; `workflows/decide/` says what they mean.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from proto.temporal.hooks import Hook, HookRetry
from proto.temporal.images import NO_SECRETS, PullSecrets
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import ContainerState, LinuxUser, PodJson, PodKey, ProbeFact, ProbeKind, Sandbox


@dataclass(frozen=True, slots=True)
class MakePodDirectories:
    """Make the pod's directories under root-dir and podLogsDir."""

    pod: PodKey
    containers: tuple[str, ...]
    """Init and regular containers, for their log directories."""


@dataclass(frozen=True, slots=True)
class RemovePodDirectories:
    """Remove the pod's directories, logs and cgroup; a missing one counts as removed."""

    pod: PodKey
    qos_class: str


@dataclass(frozen=True, slots=True)
class DeletePodObject:
    """Send the API the final status of a deleted pod, and delete its object; a missing one is a success."""

    pod: PodKey
    status: PodJson
    """The final status; a new worker would not have it."""


@dataclass(frozen=True, slots=True)
class AwaitPredecessor:
    """Wait until no other pod of this full name is left on the node."""

    pod: PodKey


@dataclass(frozen=True, slots=True)
class RunPodSandbox:
    """Find the pod's ready sandbox or make one, with its directories, cgroup and network."""

    pod: PodKey
    attempt: int
    sandbox_spec: PodJson
    """The pod without its containers' commands and env: metadata, and what a sandbox needs of spec (slices.py)."""
    containers: tuple[str, ...] = ()
    """Init and regular containers, for their log directories; empty if those are made by MakePodDirectories."""


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """A sandbox that is ready."""

    sandbox_id: str
    attempt: int
    ips: tuple[str, ...] = ()
    created_at: datetime | None = None
    adopted: bool = False
    """It existed already: an earlier try of this activity had made it."""
    notices: tuple[str, ...] = ()
    """What was left out of its name resolution, in the words of the kubelet's events."""


@dataclass(frozen=True, slots=True)
class StopPodSandbox:
    """Stop a sandbox and release its network; its containers must be stopped."""

    pod: PodKey
    sandbox_id: str


@dataclass(frozen=True, slots=True)
class RemovePodSandbox:
    """Remove a stopped sandbox and every container in it."""

    pod: PodKey
    sandbox_id: str


@dataclass(frozen=True, slots=True)
class ReadImages:
    """Report which images are on the node."""

    pod: PodKey
    images: tuple[str, ...]
    """As the pod names them."""


@dataclass(frozen=True, slots=True)
class ImagesPresent:
    """The images on the node: name as asked -> reference."""

    image_refs: dict[str, str]


@dataclass(frozen=True, slots=True)
class PullImage:
    """Ensure that an image is on the node, by its pull policy."""

    pod: PodKey
    image: str
    policy: str
    """Always, IfNotPresent or Never."""
    secrets: PullSecrets = NO_SECRETS


@dataclass(frozen=True, slots=True)
class PulledImage:
    """An image that is on the node."""

    image_ref: str
    present: bool = False
    """It was there: nothing was pulled."""
    size_bytes: int = 0
    took: timedelta = timedelta()
    waited: timedelta = timedelta()
    """The part of it before the pull began, while it waited for other pulls."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Find the container of this attempt or create it, then start it."""

    pod: PodKey
    sandbox_id: str
    attempt: int
    image_ref: str
    container: PodJson
    """This container's part of the spec."""
    sandbox_spec: PodJson
    """As in RunPodSandbox."""
    sandbox_attempt: int = 0
    ips: tuple[str, ...] = ()
    end_within: timedelta = timedelta()
    """For a container that is expected to end: how long the start waits for its end, to include it in the answer."""
    target_id: str = ""
    """For an ephemeral container: the running container whose processes it shares; empty for none."""
    volumes: tuple[MountedVolume, ...] = ()
    """Those of the pod that it mounts."""
    host_ips: tuple[str, ...] = ()
    """The node's addresses, if one of its variables shows them or those of a pod on the host network."""


@dataclass(frozen=True, slots=True)
class RuntimeContainer:
    """One container as the runtime reports it."""

    name: str
    container_id: str
    sandbox_id: str
    attempt: int
    state: ContainerState
    image: str = ""
    image_ref: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    adopted: bool = False
    """Answer of StartContainer: an earlier try had created it."""
    hash: str = ""
    """The hash of the name and image that it was created with, from its annotation."""
    stop_signal: str = ""
    """In the API's words; empty if the runtime does not report it."""
    user: LinuxUser | None = None


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run a lifecycle hook of a container; answers how it ended."""

    pod: PodKey
    name: str
    container_id: str
    hook: Hook
    handler: PodJson
    """The hook's part of the spec."""
    ports: tuple[PodJson, ...] = ()
    """The container's; a handler may name one."""
    ips: tuple[str, ...] = ()
    """The pod's."""
    asked_at: datetime | None = None
    grace: timedelta | None = None
    """For a preStop hook: how long it may last, counted from `asked_at`."""
    reason: str = ""
    """For a preStop hook: who stops the container and why; for preStart and postStop: before or after what."""
    timeout: timedelta | None = None
    """How long one try may last, if an annotation says so."""
    retry: HookRetry | None = None
    sandbox_id: str = ""
    attempt: int = 0
    """For preStart and postStop: the sandbox and attempt; a preStart hook has no container id yet."""
    helper: StartContainer | None = None
    """For an exec of those: the container that runs the command; without `image_ref` its image is pulled."""
    secrets: PullSecrets = NO_SECRETS


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Stop a container: SIGTERM, then SIGKILL after the grace period; answers its end as a RuntimeContainer."""

    pod: PodKey
    name: str
    container_id: str
    grace: timedelta
    asked_at: datetime
    """The grace period counts from here, so that a second try after a crash does not extend it."""
    reason: str
    """Who stops it and why, for `tempolet history`."""
    at_least: timedelta = timedelta(seconds=1)
    """The minimum between SIGTERM and SIGKILL, however little is left of the grace period."""


@dataclass(frozen=True, slots=True)
class ShortenStop:
    """Shorten a stop under way by a second one with a shorter grace period; answers as StopContainer."""

    pod: PodKey
    name: str
    container_id: str
    grace: timedelta
    asked_at: datetime
    """The shorter grace period counts from here."""
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeContainer:
    """Probe one instance of a container until it has ended; verdicts are sent as ProbeVerdict signals."""

    pod: PodKey
    name: str
    container_id: str
    container: PodJson
    """Of this container's part of the spec: name, ports, probes, and env if a command refers to it."""
    pod_ip: str = ""
    started_at: datetime | None = None
    """Delays count from here."""
    known: dict[ProbeKind, ProbeFact] = field(default_factory=dict)
    """The verdicts so far."""


@dataclass(frozen=True, slots=True)
class RemoveContainer:
    """Remove a dead container; its log files stay until the pod is deleted."""

    pod: PodKey
    name: str
    container_id: str


@dataclass(frozen=True, slots=True)
class ReadPodRuntime:
    """Read all that the runtime holds of this pod."""

    pod: PodKey


@dataclass(frozen=True, slots=True)
class PodRuntime:
    """All sandboxes and containers of one pod, newest attempt first."""

    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
