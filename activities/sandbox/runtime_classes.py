"""What a pod's RuntimeClass says: the runtime's handler that runs it, and what that takes beside the pod's containers.

Asked through `isolation`; a pod that names no class asks for none. The handler is the kubelet's business
(pkg/kubelet/runtimeclass), the overhead what the API server's admission writes into a pod (plugin/pkg/admission/runtimeclass): a
manifest has no API server, so it is looked up here where the pod leaves it open. Where a class wants its pods to be
scheduled is nobody's business on a node that has them already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from proto.kubernetes.resources.quantity import QuantityError, canonical_quantity, parse_quantity

_DOES_NOT_MATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_HAS_NONE: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClassRefused(ValueError):
    """A pod's RuntimeClass is not there, is none, or does not agree with the pod; the words are Kubernetes'."""


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """What of a RuntimeClass matters to a node."""

    handler: str = ""
    overhead: Mapping[str, str] | None = None
    """Its podFixed; None: the class says nothing of it."""


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


def refuse_other_overhead(pod: Mapping[str, Any], found: RuntimeClass) -> None:
    """Refuse a pod whose own overhead is not its class's; one that leaves it open has that. Raises RuntimeClassRefused."""
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
    """Write the class's overhead into a pod that leaves it open, as the API server does."""
    spec = pod.get("spec") or {}
    if spec.get("overhead") or not found.overhead:
        return pod
    return {**pod, "spec": {**spec, "overhead": dict(found.overhead)}}


def _amounts(name: str, overhead: Any) -> dict[str, str] | None:
    """Read what a class takes; none said is none, which is not the same as nothing."""
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
