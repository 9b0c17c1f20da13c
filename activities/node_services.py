"""The services that activities use, created once by the worker.

Rooms see them through Protocols of their own (`services.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from activities.clients.csi_drivers import CsiDrivers
from activities.clients.runtime import RuntimeClient
from activities.cri_config.service_links import NoServices, ServiceSource
from activities.dra.services import DynamicResources, NoDynamicResources
from activities.execution.pod_locks import PodLocks
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from activities.execution.timings import Timings
from activities.files.pod_paths import PodPaths
from activities.hardware.services import Hardware, NoHardware
from activities.images.access.logins import ImageLogins
from activities.images.access.rights import PullRights
from activities.images.image_ages import ImageAges
from activities.images.image_pulls import ImagePulls
from activities.logs.links import ContainerLinks
from activities.machine.cgroups import Cgroups
from activities.objects.objects import NoObjects, ObjectSource
from activities.objects.pod_certificates import NoPodCertificates, PodCertificateSource
from activities.objects.pod_objects import PodObjects
from activities.objects.terminating_pods import TerminatingPods
from activities.objects.tokens import NoTokens, TokenSource
from activities.objects.trust_bundles import NoTrustBundles, TrustBundleSource
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import ProbeListener, ReadinessListener, ignore_outcome, ignore_readiness
from activities.runtime.image_users import ImageUsers
from activities.sandbox.user_namespaces import UserNamespaces
from activities.settings.activity_settings import ActivitySettings
from proto.image_collection import CollectionStep, ignore_step
from proto.temporal.activities.requests import PullImage
from proto.temporal.pod import PodKey
from proto.volume_events import VolumeEvent, ignore_volume

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer


def ignore_pull(_: PullImage) -> None:
    """Ignore a pull."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The services of this node; each room's Protocol names the part that it uses."""

    settings: ActivitySettings
    runtime: RuntimeClient
    cgroups: Cgroups
    pulls: ImagePulls
    api: "ApiServer | None" = None
    """None: a standalone node."""
    pod_objects: PodObjects | None = None
    """The pods' objects in the API; None: a standalone node."""
    objects: ObjectSource = field(default_factory=NoObjects)
    service_links: ServiceSource = field(default_factory=NoServices)
    tokens: TokenSource = field(default_factory=NoTokens)
    trust_bundles: TrustBundleSource = field(default_factory=NoTrustBundles)
    pod_certificates: PodCertificateSource = field(default_factory=NoPodCertificates)
    logins: ImageLogins = field(default_factory=ImageLogins)
    pull_rights: PullRights | None = None
    """None: any pod may use any image on the node (the feature gate KubeletEnsureSecretPulledImages is off)."""
    locks: PodLocks = field(default_factory=PodLocks)
    running_actions: RunningActions = field(default_factory=RunningActions)
    present_attempts: PresentAttempts = field(default_factory=PresentAttempts)
    terminating: TerminatingPods = field(default_factory=TerminatingPods)
    user_namespaces: UserNamespaces = field(default_factory=UserNamespaces)
    image_users: ImageUsers = field(default_factory=ImageUsers)
    image_ages: ImageAges = field(default_factory=ImageAges)
    probes: ProbeLoops = field(default_factory=ProbeLoops)
    probe_listener: ProbeListener = ignore_outcome
    readiness_listener: ReadinessListener = ignore_readiness
    pull_started: Callable[[PullImage], None] = ignore_pull
    """Called when a pull asks a registry, not when the image is already present."""
    collection_step: Callable[[CollectionStep], None] = ignore_step
    """Called with what happens in the collection of images."""
    volume_changed: Callable[[VolumeEvent], None] = ignore_volume
    """Called with what happens to volumes beside the activities of their pods."""
    dynamic_resources: DynamicResources = field(default_factory=NoDynamicResources)
    hardware: Hardware = field(default_factory=NoHardware)
    """Chooses and remembers exclusive hardware."""
    csi: CsiDrivers = field(default_factory=CsiDrivers)
    timings: Timings = field(default_factory=Timings)

    @property
    def links(self) -> ContainerLinks:
        """Manages the links to container logs."""
        return ContainerLinks(self.settings.legacy_container_logs_dir, self.settings.pod_logs_dir)

    def paths(self, pod: PodKey) -> PodPaths:
        """Return the paths of a pod's files."""
        return PodPaths(self.settings.root_dir, self.settings.pod_logs_dir, pod)
