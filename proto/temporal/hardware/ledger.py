"""The types of the ledger of exclusive hardware: which CPUs, memory and devices each container of a pod was given.

The node's workflow keeps it. Only assignments are in it: what a machine has is known on the machine. Fields are only ever
added, each with a default.
"""

from dataclasses import dataclass, field
from typing import Any, Final

UNEXPECTED: Final = "UnexpectedAdmissionError"
SMT_ALIGNMENT: Final = "SMTAlignmentError"
TOPOLOGY_AFFINITY: Final = "TopologyAffinityError"
FOR_GOOD: Final = frozenset({UNEXPECTED, SMT_ALIGNMENT, TOPOLOGY_AFFINITY})
"""Why a pod is rejected for good, in the kubelet's words. Whoever is refused for another reason asks again."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Memory of NUMA nodes that a container has to itself."""

    kind: str
    """`memory`, or a size of huge pages as a resource is named."""
    nodes: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GivenDevices:
    """Devices of one resource and NUMA node."""

    resource: str
    ids: tuple[str, ...]
    node: int = -1
    """-1: the plugin does not say where they are."""


@dataclass(frozen=True, slots=True)
class ContainerAssignment:
    """What one container was given."""

    cpus: str = ""
    """As Linux writes a set; empty: it uses the shared ones."""
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[GivenDevices, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAssignment:
    """What a pod was given."""

    namespace: str
    name: str
    containers: dict[str, ContainerAssignment] = field(default_factory=dict)
    """By name, those that were given something."""
    why: tuple[str, ...] = ()
    """Why these, one sentence each."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Give a new pod the hardware that it asks for, or say why it is rejected."""

    pod: dict[str, Any]
    """Its identity, and the resources of its containers."""
    counting: tuple[str, ...] = ()
    """The uids of the other pods on the node that are not over: nobody else has anything."""
    source: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class AllocateHardware:
    """Choose hardware for a pod; answers a PodAssignment."""

    pod: dict[str, Any]
    assigned: dict[str, PodAssignment] = field(default_factory=dict)
    """What the other pods have, by uid."""
    counting: tuple[str, ...] = ()
    """The uids of pods that may have something, known to the ledger or not."""
