"""The memory manager: memoryManagerPolicy and reservedMemory.

The rules and their words are the kubelet's (apis/config/validation/validation_reserved_memory.go,
cm/memorymanager/memory_manager.go NewManager). What depends on the machine is checked, too, so a node that cannot do what
its configuration says does not start.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.kubernetes.resources.quantity import QuantityError
from worker.settings.hardware.numa_nodes import MachineNodes, read_nodes
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from workflows.decide.memory_nodes.amounts import Machine
from workflows.decide.memory_nodes.reservations import (
    NONE,
    STATIC,
    Amount,
    ReservationError,
    advice,
    configuration_faults,
    policy_fault,
    reservations,
    reserved_by_node,
)
from workflows.decide.memory_nodes.static_policy import idle_machine

POLICY: Final = "memoryManagerPolicy"
RESERVED: Final = "reservedMemory"


@dataclass(frozen=True, slots=True)
class MemoryManager:
    """The memory manager of a node."""

    idle: Machine | None = None
    """The machine without containers; None: the policy is None."""

    @property
    def policy(self) -> str:
        """The policy's name."""
        return NONE if self.idle is None else STATIC


def memory_manager_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List what is wrong whatever the machine is."""
    if why := policy_fault(kubelet[POLICY] or NONE):
        yield f'{POLICY}: {why}; it must be "{NONE}" or "{STATIC}"'
    try:
        yield from (f"{RESERVED}: {why}" for why in configuration_faults(reservations(_given(kubelet))))
    except QuantityError as error:
        yield f"{RESERVED}: {error}"


def memory_manager(
    kubelet: KubeletConfiguration, kept: Callable[[], Amount], read: Callable[[], MachineNodes] = read_nodes
) -> MemoryManager:
    """Read the keys for this machine, which keeps so much memory from pods; raises ConfigurationRefused."""
    if (kubelet[POLICY] or NONE) == NONE:
        return MemoryManager()
    try:
        nodes = read().memory
    except (OSError, ValueError) as error:
        raise ConfigurationRefused(f"{POLICY}: unable to discover NUMA nodes: {error}") from error
    given, kept_from_pods = reservations(_given(kubelet)), {"memory": kept()}
    try:
        reserved = reserved_by_node(given, nodes, kept_from_pods)
    except ReservationError as error:
        more = advice(given, nodes, kept_from_pods)
        raise ConfigurationRefused(f"{RESERVED}: {error}{more and f'; {more}'}") from error
    return MemoryManager(idle_machine(nodes, reserved))


def _given(kubelet: KubeletConfiguration) -> list[Mapping[str, Any]]:
    return list(kubelet[RESERVED] or ())
