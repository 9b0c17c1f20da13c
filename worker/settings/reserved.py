"""Resources reserved from pods: kubeReserved, systemReserved and the hard eviction thresholds.

The machine's capacity less the two reservations limits a resize. Less the thresholds as well, it is what the node
reports to the scheduler as allocatable, and what a container without a limit sees as its limit
(pkg/kubelet/cm/node_container_manager_linux.go GetNodeAllocatableAbsolute, GetNodeAllocatableReservation). What cgroups
enforce of it is in `cgroups/enforcement.py`.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from activities.machine.node_capacity import cpu_capacity, memory_capacity, storage_capacity
from proto.kubernetes.resources.quantity import (
    ZERO,
    Quantity,
    QuantityError,
    bytes_quantity,
    canonical_quantity,
    parse_quantity,
    parse_with_form,
    write_quantity,
)
from proto.temporal.eviction.thresholds import EvictionPolicy, Signal
from proto.temporal.resources import Allocatable
from worker.settings.hardware.cpu_manager import reserved_cpus
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from workflows.decide.eviction.amounts import amount_of
from workflows.decide.memory_nodes.reservations import Amount

KEYS: Final = ("kubeReserved", "systemReserved")
_BYTES: Final = ("memory", "ephemeral-storage")
_ALL: Final = ("cpu", *_BYTES, "pid")


@dataclass(frozen=True, slots=True)
class Reserved:
    """Cpu in thousandths, memory and ephemeral storage in bytes, and process ids."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_storage_bytes: int = 0
    pids: int = 0

    def by_name(self) -> dict[str, Quantity]:
        """Return the amounts by resource name."""
        amounts = {
            "cpu": f"{self.cpu_milli}m",
            "memory": str(self.memory_bytes),
            "ephemeral-storage": str(self.ephemeral_storage_bytes),
        }
        return {name: parse_quantity(amount) for name, amount in amounts.items()}


NOTHING_RESERVED: Final = Reserved()


def reserved(kubelet: KubeletConfiguration) -> Reserved:
    """Sum up the reservations; reservedSystemCPUs replaces those of cpu."""
    cpu = 1000 * reserved_cpus(kubelet) or sum((_amount(kubelet, key, "cpu").milli for key in KEYS), 0)
    memory = sum((_amount(kubelet, key, "memory").value for key in KEYS), 0)
    storage = sum((_amount(kubelet, key, "ephemeral-storage").value for key in KEYS), 0)
    pids = sum((_amount(kubelet, key, "pid").value for key in KEYS), 0)
    return Reserved(cpu, memory, storage, pids)


def allocatable(kept: Reserved) -> Allocatable:
    """Return how much of this machine a resize may use."""
    return Allocatable(max(0, cpu_capacity() - kept.cpu_milli), max(0, memory_capacity() - kept.memory_bytes))


def with_thresholds(kept: Reserved, eviction: EvictionPolicy, memory: int, storage: int) -> Reserved:
    """Add what the hard thresholds reserve of a capacity in bytes of memory and storage (hardEvictionReservation)."""
    hard = {one.signal: one.least for one in eviction.thresholds if one.is_hard}
    more_memory = amount_of(hard.get(Signal.MEMORY), memory).value
    more_storage = amount_of(hard.get(Signal.NODE_FS), storage).value
    return replace(
        kept,
        memory_bytes=kept.memory_bytes + more_memory,
        ephemeral_storage_bytes=kept.ephemeral_storage_bytes + more_storage,
    )


def allocatable_resources(kept: Reserved, eviction: EvictionPolicy, root_dir: Path) -> dict[str, Quantity]:
    """Return the node's allocatable resources by name, with the storage of `root_dir`; raises OSError."""
    disk = storage_capacity(root_dir)
    held = with_thresholds(kept, eviction, memory_capacity(), disk)
    left, storage = allocatable(held), max(0, disk - held.ephemeral_storage_bytes)
    amounts = {"cpu": f"{left.cpu_milli}m", "memory": str(left.memory_bytes), "ephemeral-storage": str(storage)}
    return {name: parse_quantity(amount) for name, amount in amounts.items()}


def kept_memory(kubelet: KubeletConfiguration, eviction: EvictionPolicy) -> Amount:
    """Sum up what is reserved of memory with the hard threshold, as reservedMemory has to (GetNodeAllocatableReservation)."""
    capacity = memory_capacity()
    threshold = with_thresholds(NOTHING_RESERVED, eviction, capacity, 0).memory_bytes
    given = [text for key in reversed(KEYS) if (text := (kubelet[key] or {}).get("memory"))]
    amounts = [Amount(*parse_with_form(text)) for text in (*given, bytes_quantity(threshold))]
    form = next((one.form for one in amounts if one.quantity), "m")
    return Amount(sum((one.quantity for one in amounts), ZERO), form)


def reserved_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List invalid and negative amounts, and resources that cannot be reserved (cmd/kubelet/app/server.go parseResourceList)."""
    for key in KEYS:
        for name, amount in (kubelet[key] or {}).items():
            if name not in _ALL:
                yield f'{key}: cannot reserve "{name}" resource'
                continue
            try:
                negative = parse_quantity(amount) < ZERO
            except QuantityError as error:
                yield f'{key}: failed to parse quantity "{amount}" for "{name}" resource: {error}'
                continue
            if negative:
                yield f'{key}: resource quantity for "{name}" cannot be negative: {amount}'


def refuse_more_than_the_machine(kubelet: KubeletConfiguration, eviction: EvictionPolicy, root_dir: Path) -> None:
    """Refuse to reserve more than the machine has; raises ConfigurationRefused (validateNodeAllocatable).

    The hard eviction thresholds count, too.
    """
    capacity = _machine_capacity(kubelet, root_dir)
    held = with_thresholds(NOTHING_RESERVED, eviction, *(capacity.get(one, 0) for one in _BYTES))
    of_thresholds = {"memory": held.memory_bytes, "ephemeral-storage": held.ephemeral_storage_bytes}
    faults = []
    for name, has in capacity.items():
        given = [text for key in reversed(KEYS) if (text := (kubelet[key] or {}).get(name))]
        if name == "cpu" and (named := reserved_cpus(kubelet)):
            given = [str(named)]
        if more := of_thresholds.get(name, 0):
            given.append(bytes_quantity(more))
        wanted = sum((parse_quantity(text) for text in given), ZERO)
        machine = canonical_quantity(f"{has}m") if name == "cpu" else bytes_quantity(has)
        if wanted > parse_quantity(machine):
            form = next(form for amount, form in map(parse_with_form, given) if amount)
            faults.append(
                f'Resource "{name}" has a reservation of {write_quantity(wanted, form)} but capacity of {machine}. '
                "Expected capacity >= reservation."
            )
    if faults:
        raise ConfigurationRefused("invalid Node Allocatable configuration. " + " ".join(faults))


def _machine_capacity(kubelet: KubeletConfiguration, root_dir: Path) -> dict[str, int]:
    """Measure what may be reserved, by resource, cpu in thousandths; no storage if it is not limited, or not measurable."""
    found = {"cpu": cpu_capacity(), "memory": memory_capacity()}
    if kubelet["localStorageCapacityIsolation"]:
        with contextlib.suppress(OSError):
            found["ephemeral-storage"] = storage_capacity(root_dir)
    return found


def _amount(kubelet: KubeletConfiguration, key: str, name: str) -> Quantity:
    return parse_quantity((kubelet[key] or {}).get(name, "0"))
