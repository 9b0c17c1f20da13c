"""What an update of a pod asks for, container by container, as the kubelet counts it (kubelet.go recordContainerResizeOperations)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from proto.kubernetes.resources.qos import resource_list
from proto.kubernetes.resources.quantity import ZERO, Quantity
from proto.temporal.pod import PodJson
from workflows.decide.resources.resources import resizable

_COUNTED: Final = (("memory", "requests"), ("memory", "limits"), ("cpu", "requests"), ("cpu", "limits"))


class ResizeOperation(NamedTuple):
    """One resource of one container, and what becomes of it."""

    resource: str
    requirement: str
    operation: str


def resize_operations(before: PodJson, now: PodJson) -> Iterator[ResizeOperation]:
    """Yield what changes; init containers that end cannot be resized. Raises QuantityError."""
    asked = {str(one["name"]): one for one in resizable(now)}
    for old in resizable(before):
        if (new := asked.get(str(old["name"]))) is None:
            continue
        for resource, requirement in _COUNTED:
            was, is_now = (resource_list(one, requirement).get(resource, ZERO) for one in (old, new))
            if operation := operation_of(was, is_now):
                yield ResizeOperation(resource, requirement, operation)


def operation_of(was: Quantity, is_now: Quantity) -> str:
    """Return add, remove, increase or decrease; empty if nothing changes. An amount of 0 is none."""
    if was == is_now:
        return ""
    if is_now == ZERO:
        return "remove"
    if was == ZERO:
        return "add"
    return "increase" if is_now > was else "decrease"
