"""The rules of the API's ValidatePodCreate for the fields that this version supports.

Called by the poller with a pod whose structure is valid and whose defaults are applied; returns every error in the
API's words. Source: pkg/apis/core/validation/validation.go (1.36). Two rules are stricter, because there is no API
server that would correct or reject a manifest: a negative grace period, and metadata.uid, which names directories.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import invalid, not_supported, required, too_long
from workflows.decide.manifest.validation.containers.containers import validate_containers, validate_init_containers
from workflows.decide.manifest.validation.containers.environment import validate_file_volumes
from workflows.decide.manifest.validation.containers.requirements import validate_pod_resources
from workflows.decide.manifest.validation.containers.resize_policy import validate_resize_policies
from workflows.decide.manifest.validation.containers.security import validate_pod_security
from workflows.decide.manifest.validation.ephemeral import refuse_ephemeral_containers
from workflows.decide.manifest.validation.hook_annotations import validate_hook_annotations
from workflows.decide.manifest.validation.hosts import validate_hosts
from workflows.decide.manifest.validation.volumes.volumes import validate_volumes

_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_LONGEST_GRACE: Final = 2**31 - 1  # seconds; more does not fit the runtime's timers
_LONGEST_DEADLINE: Final = 2**31 - 1  # seconds
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_OPERATING_SYSTEMS: Final = ("linux", "windows")
_OPERATORS: Final = ("Equal", "Exists")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UID: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,126}[A-Za-z0-9])?", re.ASCII)


def validate_pod(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """List the errors of a defaulted pod; empty if it is valid."""
    return (*_metadata(pod["metadata"]), *_spec(pod["spec"]), *validate_hook_annotations(pod))


def _metadata(metadata: Mapping[str, Any]) -> Iterator[str]:
    if name := metadata.get("name"):
        yield from (invalid("metadata.name", name, one) for one in names.dns_subdomain(name))
    else:
        yield required("metadata.name")
    if namespace := metadata.get("namespace"):
        yield from (invalid("metadata.namespace", namespace, one) for one in names.dns_label(namespace))
    else:
        yield required("metadata.namespace")
    if (uid := metadata.get("uid")) and not _UID.fullmatch(uid):
        yield invalid(
            "metadata.uid", uid, "must be at most 128 letters, digits, '-', '_' and '.', because it names folders"
        )
    if (generation := metadata.get("generation", 0)) < 0:
        yield invalid("metadata.generation", generation, "must be greater than or equal to 0")
    yield from _labels(metadata.get("labels", {}), "metadata.labels")
    annotations = metadata.get("annotations", {})
    for key in annotations:
        yield from (invalid("metadata.annotations", key, one) for one in names.qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATION_BYTES:
        yield too_long("metadata.annotations", _MOST_ANNOTATION_BYTES)


def _spec(spec: Mapping[str, Any]) -> Iterator[str]:
    containers, init = spec.get("containers", ()), spec.get("initContainers", ())
    grace = spec["terminationGracePeriodSeconds"]
    os = spec["os"].get("name", "") if "os" in spec else None
    yield from validate_containers(containers, "spec.containers", grace=grace, os=os)
    yield from validate_init_containers(init, containers, "spec.initContainers", grace=grace, os=os)
    yield from refuse_ephemeral_containers(spec.get("ephemeralContainers", ()))
    yield from validate_resize_policies(spec)
    yield from validate_pod_resources(spec)
    yield from validate_volumes(spec)
    if spec.get("hostNetwork"):
        yield from _host_network(containers)
    yield from _choices(spec)
    yield from validate_pod_security(spec)
    yield from _labels(spec.get("nodeSelector", {}), "spec.nodeSelector")
    for field in ("nodeName", "priorityClassName"):
        if name := spec.get(field):
            yield from (invalid(f"spec.{field}", name, one) for one in names.dns_subdomain(name))
    yield from validate_hosts(spec)
    yield from _os(spec)
    yield from _times(spec)
    for index, gate in enumerate(spec.get("readinessGates", ())):
        path, name = f"spec.readinessGates[{index}].conditionType", gate.get("conditionType", "")
        yield from (invalid(path, name, one) for one in names.qualified_name(name))
    for index, toleration in enumerate(spec.get("tolerations", ())):
        yield from _toleration(toleration, f"spec.tolerations[{index}]")
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield from validate_file_volumes(container, spec.get("volumes", ()), f"spec.{kind}[{index}]")


def _choices(spec: Mapping[str, Any]) -> Iterator[str]:
    """Validate the fields that take one of a few values."""
    for field, known in (
        ("restartPolicy", _RESTART_POLICIES),
        ("dnsPolicy", _DNS_POLICIES),
        ("preemptionPolicy", _PREEMPTION_POLICIES),
    ):
        if field not in spec:
            continue
        if not (value := spec[field]):
            yield required(f"spec.{field}")
        elif value not in known:
            yield not_supported(f"spec.{field}", value, known)


def _os(spec: Mapping[str, Any]) -> Iterator[str]:
    if "os" not in spec:
        return
    if not (name := spec["os"].get("name")):
        yield required("spec.os.name")
    elif name not in _OPERATING_SYSTEMS:
        yield not_supported("spec.os", name, _OPERATING_SYSTEMS)


def _times(spec: Mapping[str, Any]) -> Iterator[str]:
    grace = spec["terminationGracePeriodSeconds"]
    if grace < 0:
        yield invalid("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
    if grace > _LONGEST_GRACE:
        yield invalid("spec.terminationGracePeriodSeconds", grace, f"must be less than or equal to {_LONGEST_GRACE}")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        detail = f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        yield invalid("spec.activeDeadlineSeconds", deadline, detail)


def _host_network(containers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if (host_port := port.get("hostPort", 0)) != port.get("containerPort", 0):
                path = f"spec.containers[{index}].ports[{number}].hostPort"
                yield invalid(path, host_port, "must match `containerPort` when `hostNetwork` is true")


def _labels(labels: Mapping[str, str], path: str) -> Iterator[str]:
    for key, value in labels.items():
        yield from (invalid(path, key, one) for one in names.qualified_name(key))
        yield from (invalid(path, value, one) for one in names.label_value(value))


def _toleration(toleration: Mapping[str, Any], path: str) -> Iterator[str]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        yield from (invalid(f"{path}.key", key, one) for one in names.qualified_name(key))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, detail)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    match operator:
        case "" | "Equal":
            if faults := ";".join(names.label_value(value)):
                yield invalid(f"{path}.operator", value, faults)
        case "Exists":
            if value:
                yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
        case _:
            yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)
