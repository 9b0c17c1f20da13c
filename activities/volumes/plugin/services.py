"""What volumes use of the node."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from activities.clients.csi_drivers import CsiDrivers
from activities.clients.runtime import RuntimeClient
from activities.execution.pod_locks import PodLocks
from activities.execution.timings import Timings
from activities.files.pod_paths import PodPaths
from activities.objects.objects import ObjectSource
from activities.objects.pod_certificates import PodCertificateSource
from activities.objects.terminating_pods import TerminatingPods
from activities.objects.tokens import TokenSource
from activities.objects.trust_bundles import TrustBundleSource
from activities.settings.activity_settings import ActivitySettings
from proto.temporal.pod import PodKey
from proto.volume_events import VolumeEvent

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer


class VolumeServices(Protocol):
    """What volumes use of the node."""

    @property
    def settings(self) -> ActivitySettings: ...

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def api(self) -> "ApiServer | None": ...

    @property
    def objects(self) -> ObjectSource: ...

    @property
    def tokens(self) -> TokenSource: ...

    @property
    def trust_bundles(self) -> TrustBundleSource: ...

    @property
    def pod_certificates(self) -> PodCertificateSource: ...

    @property
    def csi(self) -> CsiDrivers: ...

    @property
    def locks(self) -> PodLocks: ...

    @property
    def terminating(self) -> TerminatingPods: ...

    @property
    def volume_changed(self) -> Callable[[VolumeEvent], None]: ...

    @property
    def timings(self) -> Timings: ...

    def paths(self, pod: PodKey) -> PodPaths: ...
