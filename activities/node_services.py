"""What every activity of this node stands on, made once by the worker and handed to all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from activities.clients.csi_drivers import CsiDrivers
from activities.clients.runtime import RuntimeClient
from activities.cri_config.service_links import NoServices, ServiceSource
from activities.execution.pod_locks import PodLocks
from activities.execution.timings import Timings
from activities.files.pod_paths import PodPaths
from activities.images.access.logins import ImageLogins
from activities.images.access.rights import PullRights
from activities.images.image_pulls import ImagePulls
from activities.logs.links import ContainerLinks
from activities.machine.cgroups import Cgroups
from activities.objects.objects import NoObjects, ObjectSource
from activities.objects.pod_objects import PodObjects
from activities.objects.terminating_pods import TerminatingPods
from activities.objects.tokens import NoTokens, TokenSource
from activities.objects.trust_bundles import NoTrustBundles, TrustBundleSource
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import ProbeListener, nobody
from activities.runtime.image_users import ImageUsers
from activities.sandbox.user_namespaces import UserNamespaces
from activities.settings.activity_settings import ActivitySettings
from proto.temporal.pod import PodKey
from proto.temporal.requests import PullImage

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer


def unheard(_: PullImage) -> None:
    """Hear nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The node, as its activities see it."""

    settings: ActivitySettings
    runtime: RuntimeClient
    cgroups: Cgroups
    pulls: ImagePulls
    api: "ApiServer | None" = None
    """None: a standalone node."""
    pod_objects: PodObjects | None = None
    """The pods as the API has them; None: a standalone node."""
    objects: ObjectSource = field(default_factory=NoObjects)
    service_links: ServiceSource = field(default_factory=NoServices)
    tokens: TokenSource = field(default_factory=NoTokens)
    trust_bundles: TrustBundleSource = field(default_factory=NoTrustBundles)
    logins: ImageLogins = field(default_factory=ImageLogins)
    pull_rights: PullRights | None = None
    """None: an image that is there is everybody's (the feature gate KubeletEnsureSecretPulledImages is off)."""
    locks: PodLocks = field(default_factory=PodLocks)
    terminating: TerminatingPods = field(default_factory=TerminatingPods)
    user_namespaces: UserNamespaces = field(default_factory=UserNamespaces)
    image_users: ImageUsers = field(default_factory=ImageUsers)
    probes: ProbeLoops = field(default_factory=ProbeLoops)
    probe_listener: ProbeListener = nobody
    pull_started: Callable[[PullImage], None] = unheard
    """Hears of a pull that has a registry asked: of an image that is there none does."""
    csi: CsiDrivers = field(default_factory=CsiDrivers)
    timings: Timings = field(default_factory=Timings)

    @property
    def links(self) -> ContainerLinks:
        """The links to the containers' logs."""
        return ContainerLinks(self.settings.legacy_container_logs_dir, self.settings.pod_logs_dir)

    def paths(self, pod: PodKey) -> PodPaths:
        """Say where a pod's files lie."""
        return PodPaths(self.settings.root_dir, self.settings.pod_logs_dir, pod)
