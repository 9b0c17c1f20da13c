"""The rules of the API's ValidatePodResize: how the resources of a running pod may change.

Asked about an edit that changes nothing else. Source: pkg/apis/core/validation/validation.go (1.36). What only the API
server knows of the node is left out. An init container that would have to restart is rejected
when the pod is created.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.resources.qos import qos_class, resource_list
from workflows.decide.manifest.fields.field_errors import forbidden, invalid

_MUTABLE: Final = ("cpu", "memory")
_ONLY: Final = "only cpu and memory resources are mutable"
_ONLY_INIT: Final = "only cpu and memory resources for init or sidecar containers are mutable"


def validate_resize(new: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[str, ...]:
    """List the errors in the resources of `new`, whose containers have the names and order of those of `old`."""
    return tuple(_faults(new, old))


def _faults(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    if (now := qos_class(new)) is not qos_class(old):
        yield invalid("spec", now.value, "Pod QOS Class may not change as a result of resizing")
    yield from _pod_level(new["spec"], old["spec"])
    for kind, only, whole in (("initContainers", _ONLY_INIT, False), ("containers", _ONLY, True)):
        pairs = zip(new["spec"].get(kind, ()), old["spec"].get(kind, ()), strict=True)
        for index, (after, before) in enumerate(pairs):
            path = f"spec.{kind}[{index}]"
            yield from _removed(after, before, path)
            if _others(after) != _others(before):
                yield forbidden("spec" if whole else path, only)


def _pod_level(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    """Judge the pod's own resources (validatePodLevelResourcesResize)."""
    before, after = old.get("resources"), new.get("resources")
    if before is not None and after is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for kind in ("requests", "limits"):
        if before is not None and resource_list(old, kind).keys() - resource_list(new, kind).keys():
            yield forbidden(f"spec.resources.{kind}", f"pod-level resource {kind} cannot be removed")
    if _others(new) != _others(old):
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _removed(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> Iterator[str]:
    """Reject the removal of a request or limit."""
    for kind in ("requests", "limits"):
        if resource_list(old, kind).keys() - resource_list(new, kind).keys():
            yield forbidden(f"{path}.resources.{kind}", f"resource {kind} cannot be removed")


def _others(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the amounts that a resize cannot change."""
    return {
        kind: {name: amount for name, amount in resource_list(container, kind).items() if name not in _MUTABLE}
        for kind in ("requests", "limits")
    }
