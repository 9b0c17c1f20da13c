"""What each kind of exclusive hardware does: CPUs, memory, devices. `node_hardware.py` asks them one after the other."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from activities.hardware.services import ContainerHardware
from proto.cri.runtime_container import RuntimeContainer
from proto.temporal.hardware.ledger import ContainerAssignment, PodAssignment
from proto.temporal.pod import PodJson
from workflows.decide.topology.hints import Hint, ProviderHints

Affinity = Hint
"""The NUMA nodes that the topology manager chose, and whether all agree on them."""
Hints = ProviderHints


class Provider(Protocol):
    """One kind of hardware; used from one event loop, for one pod after the other."""

    def keep(self, assigned: Mapping[str, PodAssignment], counting: Collection[str]) -> None:
        """Take what the ledger says, by uid, and free what pods have that do not count."""
        ...

    def hints(self, pod: PodJson, container: str) -> Hints:
        """Return where a container could be given what it asks for."""
        ...

    def pod_hints(self, pod: PodJson) -> Hints:
        """Return where a whole pod could be given what it asks for."""
        ...

    async def allocate(self, pod: PodJson, container: str, affinity: Affinity) -> None:
        """Give a container what it asks for, and what it was given before; raises HardwareRefused."""
        ...

    def state(self) -> Any:
        """Return what is given to whom, to go back to it with `restore`."""
        ...

    def restore(self, state: Any) -> None:
        """Go back to a state, because a pod was refused halfway."""
        ...

    def given(self, assignment: ContainerAssignment, pod_uid: str, container: str) -> ContainerAssignment:
        """Add what a container was given."""
        ...

    def why(self, pod: PodJson, container: str) -> str:
        """Say in words what a container was given and why; empty for nothing."""
        ...

    def of(self, made: ContainerHardware, pod_uid: str, container: str) -> ContainerHardware:
        """Add what a container is created with."""
        ...

    def is_quota_off(self, pod_uid: str) -> bool:
        """Report whether no CFS quota throttles a pod."""
        ...

    def recover(self, left: Sequence[RuntimeContainer]) -> None:
        """Take what the runtime says anew, if that is by what this kind was given back: a container was not read before."""
        ...

    def started(self, pod_uid: str, container: str) -> bool:
        """Free what init containers have that ended before a container starts; returns whether they had something."""
        ...

    def has_lost(self, pod_uid: str, container: Mapping[str, Any]) -> bool:
        """Report whether something that a container was given is not known any more, so that it must be regained before the start."""
        ...

    async def regain(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Give a container again what was lost, while nobody else is chosen for; raises HardwareRefused."""
        ...

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Prepare what a container has before it starts; raises HardwareRefused. Called for several containers at a time."""
        ...

    def release(self, uids: Collection[str]) -> bool:
        """Free what pods have that are over; returns whether they had something."""
        ...

    def holders(self) -> Collection[str]:
        """Return the uids of the pods that have something."""
        ...

    def save(self) -> None:
        """Write the kubelet's file of this kind; raises OSError."""
        ...
