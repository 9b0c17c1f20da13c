"""A pod's RuntimeClass: the runtime handler that runs it, and its overhead.

A pod that names no class needs no look-up. The handler is the kubelet's part (pkg/kubelet/runtimeclass). The overhead
is written into pods by the API server's admission (plugin/pkg/admission/runtimeclass); a manifest skips admission, so
it is filled in here. The scheduling part of a class does not matter to a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from proto.kubernetes.resources.quantity import QuantityError, canonical_quantity, parse_quantity

_DOES_NOT_MATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_HAS_NONE: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClassRefused(ValueError):
    """A pod's RuntimeClass is missing, invalid or contradicts the pod; the message is Kubernetes'."""


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """The part of a RuntimeClass that matters to a node."""

    handler: str = ""
    overhead: Mapping[str, str] | None = None
    """Its podFixed; None: not set."""


NO_CLASS: Final = RuntimeClass()


async def runtime_class_of(objects: ObjectSource, pod: Mapping[str, Any]) -> RuntimeClass:
    """Look up the class that a pod names; raises RuntimeClassRefused."""
    name = (pod.get("spec") or {}).get("runtimeClassName")
    if not name:
        return NO_CLASS
    try:
        found = await objects.get(ObjectKind.RUNTIME_CLASSES, "", name)
    except ObjectMissing as missing:
        raise RuntimeClassRefused(str(missing).replace("runtimeclass", "runtimeclass.node.k8s.io", 1)) from missing
    except ObjectRefused as refused:
        raise RuntimeClassRefused(f"failed to lookup RuntimeClass {name}: {refused}") from refused
    handler, overhead = found.json.get("handler"), found.json.get("overhead")
    if not isinstance(handler, str) or not handler:
        raise RuntimeClassRefused(f"failed to lookup RuntimeClass {name}: handler: Required value")
    return RuntimeClass(handler, _amounts(name, overhead))


def refuse_conflicting_overhead(pod: Mapping[str, Any], found: RuntimeClass) -> None:
    """Refuse a pod whose own overhead differs from its class's. Raises RuntimeClassRefused."""
    own = (pod.get("spec") or {}).get("overhead")
    if not own:
        return
    if found.overhead is None:
        raise RuntimeClassRefused(_HAS_NONE)
    if {name: parse_quantity(amount) for name, amount in own.items()} != {
        name: parse_quantity(amount) for name, amount in found.overhead.items()
    }:
        raise RuntimeClassRefused(_DOES_NOT_MATCH)


def with_overhead(pod: Mapping[str, Any], found: RuntimeClass) -> Mapping[str, Any]:
    """Fill in the overhead of the class if the pod has none, as the API server does."""
    spec = pod.get("spec") or {}
    if spec.get("overhead") or not found.overhead:
        return pod
    return {**pod, "spec": {**spec, "overhead": dict(found.overhead)}}


def _amounts(name: str, overhead: Any) -> dict[str, str] | None:
    """Read the overhead of a class; None if it is not set, which differs from an empty one."""
    if overhead is None:
        return None
    fixed = overhead.get("podFixed") or {} if isinstance(overhead, Mapping) else overhead
    path = f"failed to lookup RuntimeClass {name}: overhead.podFixed"
    if not isinstance(fixed, Mapping):
        raise RuntimeClassRefused(f"{path}: must be a mapping of quantities")
    amounts = {}
    for resource, amount in fixed.items():
        try:
            amounts[str(resource)] = canonical_quantity(amount)
        except QuantityError as error:
            raise RuntimeClassRefused(f"{path}[{resource}]: {error}") from error
    return amounts
