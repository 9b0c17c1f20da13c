"""Rules about a container's resizePolicy: whether a resize of cpu or memory restarts it.

Source: pkg/apis/core/validation/validation.go, validateResizePolicy and validateInitContainers.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.field_errors import duplicate, invalid, not_supported, required

RESTART_CONTAINER: Final = "RestartContainer"
_RESOURCES: Final = ("cpu", "memory")
_POLICIES: Final = ("NotRequired", RESTART_CONTAINER)


def validate_resize_policies(spec: Mapping[str, Any]) -> Iterator[str]:
    """Validate the policies of every container."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            path = f"spec.{kind}[{index}].resizePolicy"
            yield from _policies(container, path, spec["restartPolicy"])
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                yield from _restarts(container, path)


def _policies(container: Mapping[str, Any], path: str, pods_policy: str) -> Iterator[str]:
    """Validate each resource's policy; a pod that is never restarted cannot ask for a restart."""
    taken: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy", ())):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in taken:
            yield duplicate(f"{path}[{index}]", resource)
        taken.add(resource)
        for value, known in ((resource, _RESOURCES), (restart, _POLICIES)):
            if not value:
                yield required(path)
            elif value not in known:
                yield not_supported(path, value, known)
        if pods_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _restarts(container: Mapping[str, Any], path: str) -> Iterator[str]:
    """Reject a restart of an init container that is no sidecar."""
    for index, policy in enumerate(container.get("resizePolicy", ())):
        if (restart := policy.get("restartPolicy")) == RESTART_CONTAINER:
            where = f"{path}[{index}].restartPolicy"
            yield invalid(where, restart, f"must not be set to '{RESTART_CONTAINER}' for non-sidecar initContainers")
