"""Capacity and allocatable of the node's status.

Used by `status`. The rules are the kubelet's (pkg/kubelet/nodestatus/setters.go MachineInfo): reservations are subtracted, down
to zero, and huge pages are subtracted from memory. Resources of others (extended resources) are kept.
"""

from collections.abc import Mapping
from typing import Final

from proto.kubernetes.resources.quantity import ZERO, Quantity, bytes_quantity, canonical_quantity, parse_quantity
from proto.node_devices import DeviceCount
from worker.machine.machine import Machine

HUGE_PAGES: Final = "hugepages-"


def capacity(machine: Machine, storage_bytes: int | None, pods: int) -> dict[str, str]:
    """Return the capacity; `storage_bytes` is the size of the root directory's disk, None if storage is not limited."""
    found = {
        "cpu": canonical_quantity(f"{machine.cpu_milli}m"),
        "memory": bytes_quantity(machine.memory_bytes),
        "pods": str(pods),
    }
    if storage_bytes is not None:
        found["ephemeral-storage"] = bytes_quantity(storage_bytes)
    for size, total in machine.huge_pages.items():
        found[f"{HUGE_PAGES}{bytes_quantity(size)}"] = bytes_quantity(total)
    return found


def device_capacity(devices: Mapping[str, DeviceCount]) -> dict[str, str]:
    """Return how many devices of plugins the node has; a resource whose plugin is gone stays with zero."""
    return {name: str(one.capacity) for name, one in devices.items()}


def device_allocatable(devices: Mapping[str, DeviceCount]) -> dict[str, str]:
    """Return how many of them are healthy."""
    return {name: str(one.allocatable) for name, one in devices.items()}


def allocatable(has: Mapping[str, str], reserved: Mapping[str, Quantity]) -> dict[str, str]:
    """Return what remains of `has` for pods after `reserved` is subtracted."""
    left = {name: max(ZERO, minus(parse_quantity(text), reserved.get(name, ZERO))) for name, text in has.items()}
    for name in has:
        if name.startswith(HUGE_PAGES):
            left["memory"] = max(ZERO, minus(left["memory"], parse_quantity(has[name])))
    return {name: _written(has[name], amount) for name, amount in left.items()}


def minus(one: Quantity, other: Quantity) -> Quantity:
    """Subtract one amount from another."""
    return Quantity(one.nanos - other.nanos)


def _written(like: str, amount: Quantity) -> str:
    """Format an amount like another one: memory in binary units, cpu in millicores."""
    if like.endswith("i"):
        return bytes_quantity(amount.value)
    return canonical_quantity(f"{amount.milli}m")
