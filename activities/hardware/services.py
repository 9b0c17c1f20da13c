"""What chooses exclusive hardware: the worker (`worker/hardware/`), behind Protocols."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from proto.cri.v1 import api_pb2 as cri
from proto.temporal.hardware.ledger import AllocateHardware, PodAssignment


class HardwareRefused(Exception):
    """A pod cannot have what it asks for; the reason and the message are the kubelet's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ContainerHardware:
    """What the runtime is told of a container's hardware."""

    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    is_quota_off: bool = False
    """Its CPUs are its own, so no CFS quota throttles it."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of device plugins, which may be confidential."""
    mounts: tuple[cri.Mount, ...] = ()
    devices: tuple[cri.Device, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)
    cdi_devices: tuple[str, ...] = ()


NOTHING = ContainerHardware()


class Hardware(Protocol):
    """Chooses hardware for pods, and knows what each container has."""

    async def allocate(self, request: AllocateHardware) -> PodAssignment:
        """Choose for a pod; raises HardwareRefused. One that was chosen for before keeps what it has."""
        ...

    def of(self, pod_uid: str, container: str) -> ContainerHardware:
        """Return what a container is created with."""
        ...

    def is_quota_off(self, pod_uid: str) -> bool:
        """Report whether a container of the pod has CPUs of its own, so that no CFS quota throttles the pod."""
        ...

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Prepare what a container has before each of its starts; raises HardwareRefused."""
        ...


class NoHardware:
    """A node that gives no hardware to one container alone."""

    async def allocate(self, request: AllocateHardware) -> PodAssignment:
        """Give nothing."""
        metadata = request.pod["metadata"]
        return PodAssignment(metadata["namespace"], metadata["name"])

    def of(self, pod_uid: str, container: str) -> ContainerHardware:  # noqa: ARG002 - the Protocol's signature
        """Return nothing."""
        return NOTHING

    def is_quota_off(self, pod_uid: str) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Report that quotas apply."""
        return False

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Prepare nothing."""


class HardwareServices(Protocol):
    """The services that this room uses."""

    @property
    def hardware(self) -> Hardware: ...
