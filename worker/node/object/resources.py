"""What a node has, and what of it pods may ask for: capacity and allocatable of its status.

Asked by `status`. The rules are the kubelet's (pkg/kubelet/nodestatus/setters.go MachineInfo): what is kept back comes off, never
below nothing, and huge pages come off the memory that is left. What others have written there (extended resources) stays.
"""

from collections.abc import Mapping
from typing import Final

from proto.kubernetes.resources.quantity import ZERO, Quantity, bytes_quantity, canonical_quantity, parse_quantity
from worker.machine.machine import Machine

HUGE_PAGES: Final = "hugepages-"


def capacity(machine: Machine, storage_bytes: int | None, pods: int) -> dict[str, str]:
    """Write down what there is; `storage_bytes` is the disk of the root directory, None where it is not limited."""
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


def allocatable(has: Mapping[str, str], kept: Mapping[str, Quantity]) -> dict[str, str]:
    """Say what is left of `has` for pods when `kept` is kept back."""
    left = {name: max(ZERO, minus(parse_quantity(text), kept.get(name, ZERO))) for name, text in has.items()}
    for name in has:
        if name.startswith(HUGE_PAGES):
            left["memory"] = max(ZERO, minus(left["memory"], parse_quantity(has[name])))
    return {name: _written(has[name], amount) for name, amount in left.items()}


def minus(one: Quantity, other: Quantity) -> Quantity:
    """Take one amount from another."""
    return Quantity(one.nanos - other.nanos)


def _written(like: str, amount: Quantity) -> str:
    """Write an amount in the form of another one: memory in binary units, cpu in thousandths."""
    if like.endswith("i"):
        return bytes_quantity(amount.value)
    return canonical_quantity(f"{amount.milli}m")
