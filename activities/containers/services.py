"""The services that containers use."""

from typing import Protocol

from activities.cri_config.service_links import ServiceSource
from activities.dra.services import DynamicResources
from activities.logs.links import ContainerLinks
from activities.probes.loops import ProbeLoops
from activities.runtime.image_users import ImageUsers
from activities.sandbox.services import SandboxServices


class ContainerServices(SandboxServices, Protocol):
    """The services that containers use."""

    @property
    def dynamic_resources(self) -> DynamicResources: ...

    @property
    def image_users(self) -> ImageUsers: ...

    @property
    def service_links(self) -> ServiceSource: ...

    @property
    def links(self) -> ContainerLinks: ...

    @property
    def probes(self) -> ProbeLoops: ...
