"""Everything that a decision depends on: the pod, what was observed, what is under way, and the time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_ephemeral_container import V1EphemeralContainer
from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.temporal.activities.requests import StartContainer
from proto.temporal.failure_types import FAILED_MOUNT, FAILED_UNMOUNT, NETWORK_NOT_READY
from proto.temporal.images import ImageFacts, PullSecrets
from proto.temporal.pod import (
    ContainerFacts,
    ContainerState,
    Failure,
    NodeSettings,
    Observed,
    PodJson,
    PodKey,
)
from workflows.decide.actions import ACTIONS, Action, Wake, key
from workflows.decide.keys import CLAIMS_KEY, image_key
from workflows.decide.versions import LOOKS_FOR_STARTS

LIVE: Final = (ContainerState.CREATED, ContainerState.RUNNING, ContainerState.UNKNOWN)
"""The states of an instance that has not ended."""
RETRY_AFTER: Final = timedelta(seconds=10)
"""How long a failed step waits (pkg/kubelet/kubelet.go backOffPeriod)."""
RETRY_AFTER_TRANSIENT: Final = timedelta(seconds=1)
"""The same while the network is not ready yet (pod_workers.go backOffOnTransientErrorPeriod)."""
LONGEST_RETRY: Final = timedelta(minutes=1)
"""Each try adds seven events to the history, so a step that keeps failing is tried less and less often."""


ImageRequest = tuple[str, str]
"""An image and its pull policy."""


def image_request(container: V1Container) -> ImageRequest:
    """Return a container's image and pull policy."""
    return container.image or "", container.image_pull_policy or "IfNotPresent"


def pull_secrets(spec: V1PodSpec) -> PullSecrets:
    """Return whose credentials pull a pod's images; entries without a name are ignored (kubelet_pods.go)."""
    names = tuple(one.name for one in spec.image_pull_secrets or () if one.name)
    return PullSecrets(names, spec.service_account_name or spec.service_account or "")


def has_restart_all(container: V1Container) -> bool:
    """Report whether a restart rule of the container has the action RestartAllContainers."""
    return any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules or ())


def as_container(ephemeral: V1EphemeralContainer) -> V1Container:
    """Convert an ephemeral container to a container, without its target (`containers/targets.py`)."""
    shared = {field: value for field, value in ephemeral if field != "target_container_name"}
    return V1Container.model_construct(**shared)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What decisions look up for every container, gathered once from a spec: most situations of a pod have the same one."""

    spec: V1PodSpec
    init_names: frozenset[str]
    sidecar_names: frozenset[str]
    ephemeral_containers: tuple[V1Container, ...]
    all_containers: tuple[V1Container, ...]
    ephemeral_names: frozenset[str]
    companions: frozenset[str]
    volume_images: Mapping[str, ImageRequest]
    restart_all: tuple[V1Container, ...]


def gathered(spec: V1PodSpec) -> Gathered:
    """Gather them; nobody may change the spec afterwards."""
    init = spec.init_containers or []
    sidecars = frozenset(one.name for one in init if one.restart_policy == "Always")
    ephemeral = tuple(as_container(one) for one in spec.ephemeral_containers or ())
    everyone = (*init, *spec.containers, *ephemeral)
    ephemeral_names = frozenset(one.name for one in ephemeral)
    return Gathered(
        spec=spec,
        init_names=frozenset(one.name for one in init),
        sidecar_names=sidecars,
        ephemeral_containers=ephemeral,
        all_containers=everyone,
        ephemeral_names=ephemeral_names,
        companions=sidecars | ephemeral_names,
        volume_images={
            one.name: (one.image.reference or "", one.image.pull_policy or "IfNotPresent")
            for one in spec.volumes or ()
            if one.image
        },
        restart_all=tuple(one for one in everyone if has_restart_all(one)),
    )


NOTHING: Final = gathered(V1PodSpec(containers=[]))


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of every decision."""

    key: PodKey
    spec: V1PodSpec
    source: PodJson
    """The same pod as its source wrote it; the requests of activities are cut from it."""
    observed: Observed
    now: datetime
    settings: NodeSettings
    behaviour: int
    """The number of the behaviour that the run follows (`versions.py`)."""
    busy: Mapping[str, Action] = field(default_factory=dict)
    """Actions under way, by key."""
    from_api: bool = False
    """The pod came from an API server, which keeps its object until nothing of the pod is left here."""
    gathered: Gathered = field(default=NOTHING, repr=False, compare=False)
    """Of the spec; where that of another one is given, it is gathered anew."""

    def __post_init__(self) -> None:
        if self.gathered.spec is not self.spec:
            object.__setattr__(self, "gathered", gathered(self.spec))

    @property
    def init_containers(self) -> list[V1Container]:
        """The init containers, in order."""
        return self.spec.init_containers or []

    @property
    def containers(self) -> list[V1Container]:
        """The regular containers, in order."""
        return self.spec.containers

    @property
    def ephemeral_containers(self) -> tuple[V1Container, ...]:
        """The ephemeral containers, in the order in which they were added."""
        return self.gathered.ephemeral_containers

    @property
    def all_containers(self) -> tuple[V1Container, ...]:
        """All containers: init, regular, ephemeral."""
        return self.gathered.all_containers

    @property
    def init_names(self) -> frozenset[str]:
        """The init containers' names."""
        return self.gathered.init_names

    @property
    def sidecar_names(self) -> frozenset[str]:
        """The names of the init containers whose own restartPolicy is Always."""
        return self.gathered.sidecar_names

    @property
    def ephemeral_names(self) -> frozenset[str]:
        """The ephemeral containers' names."""
        return self.gathered.ephemeral_names

    @property
    def companions(self) -> frozenset[str]:
        """The names of sidecars and ephemeral containers; they do not keep a pod running."""
        return self.gathered.companions

    @property
    def volume_images(self) -> Mapping[str, ImageRequest]:
        """The images of the volumes of type image, by the volume's name."""
        return self.gathered.volume_images

    @property
    def restart_all(self) -> tuple[V1Container, ...]:
        """The containers with a restart rule that restarts all containers."""
        return self.gathered.restart_all

    @property
    def generation(self) -> int | None:
        """The pod's metadata.generation, repeated as observedGeneration in status and conditions; None if it has none."""
        return self.source["metadata"].get("generation") or None

    @property
    def sandbox_id(self) -> str:
        """The id of the ready sandbox, or an empty string."""
        sandbox = self.observed.sandbox
        return sandbox.sandbox_id if sandbox and sandbox.ready else ""

    @property
    def starting(self) -> list[str]:
        """The containers that are being started."""
        return [str(one.container["name"]) for one in self.busy.values() if isinstance(one, StartContainer)]

    def facts(self, name: str) -> ContainerFacts:
        """What is known of a container; a fresh record for one never seen."""
        return self.observed.containers.get(name) or ContainerFacts()

    def image(self, container: V1Container) -> ImageFacts:
        """What is known of a container's image."""
        return self.image_of(image_request(container))

    def image_of(self, asked: ImageRequest) -> ImageFacts:
        """What is known of an image."""
        return self.observed.images.get(image_key(*asked)) or ImageFacts()

    def images_needed(self, container: V1Container) -> tuple[ImageRequest, ...]:
        """List the images that a container needs: its own, and those of the volumes it mounts."""
        own = image_request(container)
        if not self.volume_images:
            return (own,)
        mounted = (
            self.volume_images[one.name] for one in container.volume_mounts or () if one.name in self.volume_images
        )
        return tuple(dict.fromkeys((own, *mounted)))

    def images_missing(self, container: V1Container) -> tuple[ImageRequest, ...]:
        """List those of them that are missing, images of volumes first as in the kubelet."""
        asked = self.images_needed(container)
        return tuple(one for one in (*asked[1:], asked[0]) if not self.image_of(one).pulled)

    def is_busy(self, *prefixes: str) -> bool:
        """Report whether an action is under way whose key has one of these prefixes."""
        return any(one.startswith(prefixes) for one in self.busy)


def retry_delay(failure: Failure) -> timedelta:
    """Return how long a step waits after its last failure: the kubelet's delay, doubled with each failure."""
    first, longest = RETRY_AFTER, LONGEST_RETRY
    if failure.reason == NETWORK_NOT_READY:  # it soon becomes ready, for all pods at once
        first, longest = RETRY_AFTER_TRANSIENT, RETRY_AFTER
    if failure.reason in (
        FAILED_MOUNT,
        FAILED_UNMOUNT,
    ):  # others may provide or release at any moment what it waits for
        first = RETRY_AFTER_TRANSIENT
    doublings: int = 2 ** min(failure.tries - 1, 6)
    return min(first * doublings, longest)


def unless_backing_off(situation: Situation, action: Action) -> list[Action | Wake]:
    """Return the action, or a wake for the end of its retry delay; nothing while the action is under way."""
    subject = key(action)
    if subject in situation.busy:
        return []
    failure = situation.observed.failures.get(subject)
    if failure is None:
        return [action]
    at = failure.at + retry_delay(failure)
    if at <= situation.now:
        return [action]
    what = f"to {ACTIONS[type(action)].summary(action)}" if subject == CLAIMS_KEY else subject
    return [Wake(at, f"{failure.reason}: try {what} again at {at:%H:%M:%S}", subject)]


def look_for_starts(observed: Observed) -> None:
    """Re-read the runtime, which may hold what a failed start has created."""
    observed.runtime_stale = observed.starts_in_doubt = True


def is_start_in_doubt(situation: Situation) -> bool:
    """Report whether a container may live that only a re-read of the runtime finds; earlier behaviours do not ask this."""
    return situation.observed.starts_in_doubt and situation.behaviour >= LOOKS_FOR_STARTS


def is_live(facts: ContainerFacts) -> bool:
    """Report whether the runtime holds an instance that has not ended."""
    return facts.exit is None and facts.state in LIVE
