"""All that a decision may look at, gathered once: the pod, what was observed, what is under way, and the time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_ephemeral_container import V1EphemeralContainer
from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.temporal.activities.requests import StartContainer
from proto.temporal.failure_types import FAILED_MOUNT, FAILED_UNMOUNT
from proto.temporal.images import PullSecrets
from proto.temporal.pod import (
    ContainerFacts,
    ContainerState,
    Failure,
    ImageFacts,
    NodeSettings,
    Observed,
    PodJson,
    PodKey,
)
from workflows.decide.actions import Action, Wake, key
from workflows.decide.keys import image_key
from workflows.decide.versions import CURRENT

LIVE: Final = (ContainerState.CREATED, ContainerState.RUNNING, ContainerState.UNKNOWN)
"""The states of an instance that has not ended."""
RETRY_AFTER: Final = timedelta(seconds=10)
"""How long a step that failed waits (pkg/kubelet/kubelet.go backOffPeriod)."""
RETRY_AFTER_TRANSIENT: Final = timedelta(seconds=1)
"""The same while only the network is not ready yet (pod_workers.go backOffOnTransientErrorPeriod)."""
LONGEST_RETRY: Final = timedelta(minutes=1)
"""Each try costs seven events of history, so a step that keeps failing is tried less and less often (design §4.6)."""


AskedImage = tuple[str, str]
"""An image, and by which policy it is pulled."""


def image_asked(container: V1Container) -> AskedImage:
    """Say which image a container asks for, and by which policy."""
    return container.image or "", container.image_pull_policy or "IfNotPresent"


def pull_secrets(spec: V1PodSpec) -> PullSecrets:
    """Say whose logins a pod's images are pulled with; entries without a name mean nothing (kubelet_pods.go)."""
    names = tuple(one.name for one in spec.image_pull_secrets or () if one.name)
    return PullSecrets(names, spec.service_account_name or spec.service_account or "")


def has_restart_all(container: V1Container) -> bool:
    """Say whether a restart rule of the container has the action RestartAllContainers."""
    return any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules or ())


def as_container(ephemeral: V1EphemeralContainer) -> V1Container:
    """Read an ephemeral container as the container that it is; only its target is no other's (targets.py)."""
    shared = {field: value for field, value in ephemeral if field != "target_container_name"}
    return V1Container.model_construct(**shared)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is asked about: everything a rule needs, and nothing it could fetch."""

    key: PodKey
    spec: V1PodSpec
    source: PodJson
    """The same pod as its source wrote it; what activities are given is cut from it."""
    observed: Observed
    now: datetime
    settings: NodeSettings = field(default_factory=NodeSettings)
    behaviour: int = CURRENT
    """The numbered behaviour that the run follows (versions.py)."""
    busy: Mapping[str, Action] = field(default_factory=dict)
    """Actions under way, by key."""
    from_api: bool = False
    """An API server gave the pod, and has its object until nothing of it is left here."""
    init_names: frozenset[str] = field(init=False)
    """The init containers' names: looked up for every container, so gathered once."""
    sidecar_names: frozenset[str] = field(init=False)
    """Those of them that run on beside what follows: their own restartPolicy is Always."""
    ephemeral_containers: tuple[V1Container, ...] = field(init=False)
    """What somebody looks into the running pod with, in the order in which they were added."""
    ephemeral_names: frozenset[str] = field(init=False)
    companions: frozenset[str] = field(init=False)
    """Sidecars and ephemeral containers: they run beside the others, and a pod does not go on for them."""
    volume_images: Mapping[str, AskedImage] = field(init=False)
    """What its volumes of the type image show, by the volume's name."""
    restart_all: tuple[V1Container, ...] = field(init=False)
    """Those that have a rule by which one end starts all containers again."""

    def __post_init__(self) -> None:
        init = self.init_containers
        object.__setattr__(self, "init_names", frozenset(one.name for one in init))
        sidecars = frozenset(one.name for one in init if one.restart_policy == "Always")
        object.__setattr__(self, "sidecar_names", sidecars)
        ephemeral = tuple(as_container(one) for one in self.spec.ephemeral_containers or ())
        object.__setattr__(self, "ephemeral_containers", ephemeral)
        object.__setattr__(self, "ephemeral_names", frozenset(one.name for one in ephemeral))
        object.__setattr__(self, "companions", sidecars | self.ephemeral_names)
        shown = {
            one.name: (one.image.reference or "", one.image.pull_policy or "IfNotPresent")
            for one in self.spec.volumes or ()
            if one.image
        }
        object.__setattr__(self, "volume_images", shown)
        asking = tuple(one for one in self.all_containers if has_restart_all(one))
        object.__setattr__(self, "restart_all", asking)

    @property
    def init_containers(self) -> list[V1Container]:
        """Its init containers, in order."""
        return self.spec.init_containers or []

    @property
    def containers(self) -> list[V1Container]:
        """Its regular containers, in order."""
        return self.spec.containers

    @property
    def all_containers(self) -> tuple[V1Container, ...]:
        """All its containers: init, regular, ephemeral."""
        return (*self.init_containers, *self.containers, *self.ephemeral_containers)

    @property
    def generation(self) -> int | None:
        """Its metadata.generation, which status and conditions repeat as observedGeneration; None when it has none."""
        return self.source["metadata"].get("generation") or None

    @property
    def sandbox_id(self) -> str:
        """The ready sandbox's id, or an empty string."""
        sandbox = self.observed.sandbox
        return sandbox.sandbox_id if sandbox and sandbox.ready else ""

    @property
    def starting(self) -> list[str]:
        """The containers that are just being started."""
        return [str(one.container["name"]) for one in self.busy.values() if isinstance(one, StartContainer)]

    def facts(self, name: str) -> ContainerFacts:
        """What is known of a container; a fresh record for one never seen."""
        return self.observed.containers.get(name) or ContainerFacts()

    def image(self, container: V1Container) -> ImageFacts:
        """What is known of a container's image."""
        return self.image_of(image_asked(container))

    def image_of(self, asked: AskedImage) -> ImageFacts:
        """What is known of an image that is asked for."""
        return self.observed.images.get(image_key(*asked)) or ImageFacts()

    def images_asked(self, container: V1Container) -> tuple[AskedImage, ...]:
        """Say which images a container needs: its own, and those of the volumes that it mounts."""
        own = image_asked(container)
        if not self.volume_images:
            return (own,)
        mounted = (
            self.volume_images[one.name] for one in container.volume_mounts or () if one.name in self.volume_images
        )
        return tuple(dict.fromkeys((own, *mounted)))

    def images_lacking(self, container: V1Container) -> tuple[AskedImage, ...]:
        """Say which of them are not there; those of volumes come first, for the kubelet looks at them first."""
        asked = self.images_asked(container)
        return tuple(one for one in (*asked[1:], asked[0]) if not self.image_of(one).pulled)

    def is_busy(self, *prefixes: str) -> bool:
        """Say whether an action whose key starts like this is under way."""
        return any(one.startswith(prefixes) for one in self.busy)


def retry_delay(failure: Failure) -> timedelta:
    """Say how long a step waits after its last failure: the kubelet's pause, doubled with each further one."""
    first, longest = RETRY_AFTER, LONGEST_RETRY
    if failure.reason == "NetworkNotReady":  # it comes back for all pods at once, and soon
        first, longest = RETRY_AFTER_TRANSIENT, RETRY_AFTER
    if failure.reason in (FAILED_MOUNT, FAILED_UNMOUNT):  # others make or let go what it waits for, at any moment
        first = RETRY_AFTER_TRANSIENT
    doublings: int = 2 ** min(failure.tries - 1, 6)
    return min(first * doublings, longest)


def unless_backing_off(situation: Situation, action: Action) -> list[Action | Wake]:
    """Do it now, or look again when the pause after its last failure is over; nothing while it is under way."""
    subject = key(action)
    if subject in situation.busy:
        return []
    failure = situation.observed.failures.get(subject)
    if failure is None:
        return [action]
    at = failure.at + retry_delay(failure)
    if at <= situation.now:
        return [action]
    return [Wake(at, f"{failure.reason}: try {subject} again at {at:%H:%M:%S}", subject)]


def is_live(facts: ContainerFacts) -> bool:
    """Say whether the runtime holds an instance that has not ended."""
    return facts.exit is None and facts.state in LIVE
