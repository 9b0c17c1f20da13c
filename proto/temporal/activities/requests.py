"""What activities are asked and what they answer: the narrowest slice each (design §4.10).

Requests carry the pod's key and one container's part of the spec, never a secret or a resolved env value. Answers are
facts, not judgements: what they mean is for `workflows/decide/`.
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
    """Init and regular, for their log folders."""


@dataclass(frozen=True, slots=True)
class RemovePodDirectories:
    """Remove the pod's directories, logs and cgroup; what is gone counts as removed."""

    pod: PodKey
    qos_class: str


@dataclass(frozen=True, slots=True)
class DeletePodObject:
    """Tell the API the last of a deleted pod, and remove its object there; one that is gone is a success."""

    pod: PodKey
    status: PodJson
    """As it ended: nobody else remembers it when the worker is another one by then."""


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
    """The pod without its containers' commands and env: metadata, and of spec what a sandbox needs (see slices.py)."""
    containers: tuple[str, ...] = ()
    """Init and regular, for their log folders; none when its directories are asked for apart."""


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """A sandbox that is ready."""

    sandbox_id: str
    attempt: int
    ips: tuple[str, ...] = ()
    created_at: datetime | None = None
    adopted: bool = False
    """It was there already: an earlier try of this activity had made it."""
    notices: tuple[str, ...] = ()
    """What of its name resolution was left out, in the words of the kubelet's events."""


@dataclass(frozen=True, slots=True)
class StopPodSandbox:
    """Stop a sandbox and give its network back; its containers must be down."""

    pod: PodKey
    sandbox_id: str


@dataclass(frozen=True, slots=True)
class RemovePodSandbox:
    """Remove a stopped sandbox and every container in it."""

    pod: PodKey
    sandbox_id: str


@dataclass(frozen=True, slots=True)
class ReadImages:
    """Say which images are on the node already."""

    pod: PodKey
    images: tuple[str, ...]
    """As the pod names them."""


@dataclass(frozen=True, slots=True)
class ImagesPresent:
    """The images that are on the node: name as asked -> reference."""

    image_refs: dict[str, str]


@dataclass(frozen=True, slots=True)
class PullImage:
    """Have an image on the node, by its pull policy."""

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
    """Of that, before the pull began: other pulls went first."""
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
    """Of one that is expected to end: how long the start looks whether it has, so that its answer tells the end, too."""
    target_id: str = ""
    """Of an ephemeral container: the running container whose processes it is to see; empty: only its own."""
    volumes: tuple[MountedVolume, ...] = ()
    """Those of the pod that it mounts."""
    host_ips: tuple[str, ...] = ()
    """The node's addresses, where one of its variables tells of them or of those of a pod on the host network."""


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
    """Answer of StartContainer: an earlier try had made it already."""
    hash: str = ""
    """Of the name and image that it was made with, as its annotation says."""
    stop_signal: str = ""
    """In the API's words; empty where the runtime does not say."""
    user: LinuxUser | None = None


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run a lifecycle hook of a container, and answer how it ended."""

    pod: PodKey
    name: str
    container_id: str
    hook: Hook
    handler: PodJson
    """The hook's part of the spec."""
    ports: tuple[PodJson, ...] = ()
    """The container's, by whose names a handler may call one."""
    ips: tuple[str, ...] = ()
    """The pod's."""
    asked_at: datetime | None = None
    grace: timedelta | None = None
    """Of a preStop hook: how long it may last, counted from `asked_at`."""
    reason: str = ""
    """Of a preStop hook: who stops the container and why; of those of our own: before or after what."""
    timeout: timedelta | None = None
    """How long one try may last, where an annotation says so."""
    retry: HookRetry | None = None
    sandbox_id: str = ""
    attempt: int = 0
    """Of preStart and postStop: for which sandbox and attempt; a preStart hook has no container's id yet."""
    helper: StartContainer | None = None
    """Of an exec of those: the container that runs the command beside the pod's own; without `image_ref` it is pulled."""
    secrets: PullSecrets = NO_SECRETS


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Stop a container: SIGTERM, SIGKILL when grace is over; answer its end as a RuntimeContainer."""

    pod: PodKey
    name: str
    container_id: str
    grace: timedelta
    asked_at: datetime
    """Grace counts from here, so a second try after a crash never lengthens it."""
    reason: str
    """For the story: who stops it and why."""
    at_least: timedelta = timedelta(seconds=1)
    """What it gets between SIGTERM and SIGKILL, however little is left of its grace."""


@dataclass(frozen=True, slots=True)
class ShortenStop:
    """Let a stop that is under way end sooner, by a second one with a shorter grace; answers as StopContainer."""

    pod: PodKey
    name: str
    container_id: str
    grace: timedelta
    asked_at: datetime
    """The shorter grace counts from here."""
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeContainer:
    """Probe one instance of a container until it has ended; what is found comes as ProbeVerdict signals."""

    pod: PodKey
    name: str
    container_id: str
    container: PodJson
    """Of this container's part of the spec: name, ports, probes, and env where a command refers to it."""
    pod_ip: str = ""
    started_at: datetime | None = None
    """Delays count from here."""
    known: dict[ProbeKind, ProbeFact] = field(default_factory=dict)
    """The verdicts that stand when this is asked."""


@dataclass(frozen=True, slots=True)
class RemoveContainer:
    """Remove a dead container; its log files stay until the pod goes."""

    pod: PodKey
    name: str
    container_id: str


@dataclass(frozen=True, slots=True)
class ReadPodRuntime:
    """Read all that the runtime knows of this pod."""

    pod: PodKey


@dataclass(frozen=True, slots=True)
class PodRuntime:
    """All sandboxes and containers of one pod, newest attempt first."""

    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
