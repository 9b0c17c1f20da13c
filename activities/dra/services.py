"""What prepares claims: the worker (`worker/dra/`), behind Protocols."""

from collections.abc import Mapping
from typing import Any, Protocol

from activities.clients.runtime import RuntimeClient
from activities.objects.terminating_pods import TerminatingPods
from proto.temporal.activities.claims import PreparedResources
from proto.temporal.pod import PodJson, PodKey


class ResourcesRefused(Exception):
    """The claims of a pod could not be prepared or undone; the message is the kubelet's."""


class DynamicResources(Protocol):
    """Has drivers prepare the claims of pods, and knows what each container gets of them."""

    async def prepare(self, pod: PodKey, pod_spec: PodJson) -> PreparedResources:
        """Prepare all claims of a pod; raises ResourcesRefused. What is begun and not undone is known from then on."""
        ...

    async def unprepare(self, pod_uid: str) -> None:
        """Undo the claims that no other pod uses; raises ResourcesRefused."""
        ...

    def cdi_devices(self, pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
        """List the CDI devices that a container gets; raises ValueError for a claim that is not known."""
        ...


class NoDynamicResources:
    """A node without drivers: a standalone one, whose pods have no claims."""

    async def prepare(self, pod: PodKey, pod_spec: PodJson) -> PreparedResources:  # noqa: ARG002 - the Protocol's signature
        """Refuse it."""
        raise ResourcesRefused(f"{pod} has resource claims, and this node has no API server to read them from")

    async def unprepare(self, pod_uid: str) -> None:
        """Undo nothing."""

    def cdi_devices(self, pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG002 - the Protocol's signature
        """List none."""
        return ()


class DynamicResourceServices(Protocol):
    """The services that this room uses."""

    @property
    def dynamic_resources(self) -> DynamicResources: ...

    @property
    def terminating(self) -> TerminatingPods: ...


class CdiServices(Protocol):
    """What knows of CDI devices."""

    @property
    def dynamic_resources(self) -> DynamicResources: ...

    @property
    def runtime(self) -> RuntimeClient: ...
