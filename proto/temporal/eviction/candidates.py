"""What evictions and preemptions are decided by of a pod's spec.

Made from a pod by `workflows/decide/eviction/candidates.py`. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field

from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.quantity import Quantity
from proto.kubernetes.resources.storage_limits import StorageLimits


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """The requests of a container or init container, as quantities of the API."""

    name: str
    requests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod with something running, as the decisions see it."""

    uid: str
    namespace: str
    name: str
    critical: bool = False
    """Never evicted, and admitted under pressure."""
    priority: int | None = None
    qos: QosClass = QosClass.BEST_EFFORT
    grace_seconds: int | None = None
    """terminationGracePeriodSeconds."""
    requests: dict[str, Quantity] = field(default_factory=dict)
    """Of the whole pod."""
    containers: tuple[ContainerRequests, ...] = ()
    """Containers, then init containers."""
    pod_level_memory: str = ""
    """The memory request of `spec.resources`, as a quantity of the API; empty for none."""
    local_volumes: tuple[str, ...] = ()
    """The volumes whose files count as the pod's local storage."""
    limits: StorageLimits | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"
