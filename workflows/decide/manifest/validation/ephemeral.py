"""Rules about ephemeral containers, which are added to a running pod and never change.

Source: pkg/apis/core/validation/validation.go, validateEphemeralContainers and ValidatePodEphemeralContainersUpdate.
The defaults are applied here, because nothing else sees the container before it is validated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proto.temporal.pod import PodJson
from workflows.decide.manifest.defaults.defaults import default_container
from workflows.decide.manifest.fields.field_errors import forbidden, not_found
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.containers.containers import validate_container, validate_unique_name
from workflows.decide.manifest.validation.containers.environment import validate_file_volumes
from workflows.decide.manifest.validation.containers.security import uses_nodes_users, validate_security
from workflows.decide.manifest.validation.volumes.devices import validate_volume_devices
from workflows.decide.manifest.validation.volumes.volumes import validate_volume_mounts

PATH: Final = "spec.ephemeralContainers"
_OF_RESTARTS: Final = ("restartPolicy", "restartPolicyRules")
_FORBIDDEN: Final = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    *_OF_RESTARTS,
    "resizePolicy",
)
"""Fields that an ephemeral container must not set."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An ephemeral container with its defaults, and its errors."""

    container: PodJson
    faults: tuple[str, ...]


def judge_ephemeral_container(pod: PodJson, container: Mapping[str, Any]) -> Judged:
    """Validate a container that is to be added to a pod; those that the pod already has are valid."""
    there = pod["spec"].get("ephemeralContainers", [])
    read = read_structure({"spec": {"ephemeralContainers": [*there, dict(container)]}}, POD)
    wrong = (*read.faults, *read.not_yet)
    if wrong:
        return Judged(dict(container), wrong)
    given: PodJson = read.content["spec"]["ephemeralContainers"][-1]
    filled = default_container(given, host_network=bool(pod["spec"].get("hostNetwork")))
    path = f"{PATH}[{len(there)}]"
    return Judged(filled, (*_rules(pod, filled, path), *_not_allowed(given, path)))


def _rules(pod: PodJson, container: PodJson, path: str) -> Iterator[str]:
    spec = pod["spec"]
    others = [str(one["name"]) for kind in ("containers", "initContainers") for one in spec.get(kind, ())]
    taken = {*others, *(str(one["name"]) for one in spec.get("ephemeralContainers", ()))}
    yield from validate_container({name: container[name] for name in container if name not in _OF_RESTARTS}, path)
    yield from validate_unique_name(container, path, taken)
    yield from validate_file_volumes(container, spec.get("volumes", ()), path)
    yield from validate_volume_mounts(container, {str(one["name"]) for one in spec.get("volumes", ())}, path)
    yield from validate_volume_devices(container, spec.get("volumes", ()), path)
    yield from validate_security(container, path, host_users=uses_nodes_users(spec))
    target = container.get("targetContainerName", "")
    if target and target not in others:
        yield not_found(f"{path}.targetContainerName", target)


def _not_allowed(given: Mapping[str, Any], path: str) -> Iterator[str]:
    """Reject fields beyond the API's list; an empty value sets nothing."""
    for field in _FORBIDDEN:
        if given.get(field):
            yield forbidden(f"{path}.{field}", "cannot be set for an Ephemeral Container")
    for index, mount in enumerate(given.get("volumeMounts", ())):
        for field in ("subPath", "subPathExpr"):  # their mounts would stay until the pod is gone
            if mount.get(field):
                yield forbidden(f"{path}.volumeMounts[{index}].{field}", "cannot be set for an Ephemeral Container")


def refuse_ephemeral_containers(containers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Reject ephemeral containers in a new pod (ValidatePodCreate)."""
    if containers:
        yield forbidden(PATH, "cannot be set on create")
