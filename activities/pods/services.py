"""The services that activities about a whole pod use."""

from typing import TYPE_CHECKING, Protocol

from activities.clients.runtime import RuntimeClient
from activities.files.pod_paths import PodPaths
from activities.logs.links import ContainerLinks
from activities.machine.cgroups import Cgroups
from activities.objects.pod_objects import PodObjects
from activities.settings.activity_settings import ActivitySettings
from proto.temporal.pod import PodKey

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer


class PodServices(Protocol):
    """The services that activities about a whole pod use."""

    @property
    def settings(self) -> ActivitySettings: ...

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def cgroups(self) -> Cgroups: ...

    @property
    def links(self) -> ContainerLinks: ...

    @property
    def api(self) -> "ApiServer | None": ...

    @property
    def pod_objects(self) -> PodObjects | None: ...

    def paths(self, pod: PodKey) -> PodPaths: ...
