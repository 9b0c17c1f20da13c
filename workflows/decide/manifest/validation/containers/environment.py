"""Rules about env and envFrom.

Source: pkg/apis/core/validation/validation.go, ValidateEnv, ValidateEnvFrom and what they call. The rules for paths and
divisors are those of variables; downwardAPI volumes have others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from proto.kubernetes.contents.field_paths import split_subscript
from proto.kubernetes.resources.quantity import QuantityError, canonical_quantity, parse_quantity
from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.descending_paths import without_backsteps
from workflows.decide.manifest.fields.field_errors import invalid, not_found, not_supported, required, shortened

Object = Mapping[str, Any]

FIELD_PATHS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_LABELS: Final = (
    *("metadata.annotations", "metadata.labels", *FIELD_PATHS[:3], "spec.nodeName", "spec.restartPolicy"),
    *("spec.serviceAccountName", "spec.schedulerName", "status.phase", *FIELD_PATHS[5:]),
)
"""What a field of a pod can be called at all (ConvertDownwardAPIFieldLabel)."""
_MAPS: Final = ("metadata.annotations", "metadata.labels")
_RESOURCES: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_BYTES: Final = ("1", *(f"1{unit}{binary}" for binary in ("", "i") for unit in ("kMGTPE", "KMGTPE")[bool(binary)]))
_SAID_BYTES: Final = ", ".join(_BYTES)
_ALL_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_environment(container: Object, path: str) -> Iterator[str]:
    """Validate a container's env and envFrom."""
    for index, variable in enumerate(container.get("env", ())):
        here = f"{path}.env[{index}]"
        if name := variable.get("name"):
            yield from (invalid(f"{here}.name", name, one) for one in names.environment_name(name))
        else:
            yield required(f"{here}.name")
        if "valueFrom" in variable:
            yield from _value_from(variable, f"{here}.valueFrom")
    yield from _env_from(container.get("envFrom", ()), f"{path}.envFrom")


def _value_from(variable: Object, path: str) -> Iterator[str]:
    chosen = variable["valueFrom"]
    given = [source for source in _ALL_SOURCES if source in chosen]
    for source in given:
        yield from _RULES[source](chosen[source], f"{path}.{source}")
    if not given:
        said = ", ".join(f"`{one}`" for one in _ALL_SOURCES[:-1])
        yield invalid(path, "", f"must specify one of: {said} or `fileKeyRef`")
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _env_from(sources: Sequence[Object], path: str) -> Iterator[str]:
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            yield from (invalid(f"{here}.prefix", prefix, one) for one in names.environment_name(prefix))
        given = [ref for ref in ("configMapRef", "secretRef") if ref in source]
        for ref in given:
            if name := source[ref].get("name"):
                yield from (invalid(f"{here}.{ref}.name", name, one) for one in names.dns_subdomain(name))
            else:
                yield required(f"{here}.{ref}.name")
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


def validate_file_volumes(container: Object, volumes: Sequence[Object], path: str) -> Iterator[str]:
    """Validate the volumes that a container's variables are read from (validateFileKeyRefVolumes)."""
    known = {one.get("name"): one for one in volumes}
    for index, selector in _file_selectors(container):
        name, here = selector.get("volumeName", ""), f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName"
        if name not in known:
            yield not_found(here, name)
        elif "emptyDir" not in known[name]:
            yield invalid(here, name, "referenced volume must be of type emptyDir")


def file_key_refs(spec: Object) -> Iterator[str]:
    """Yield the paths of the fields that need the feature gate EnvFiles."""
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind, ())):
            for number, _ in _file_selectors(container):
                yield f"spec.{kind}[{index}].env[{number}].valueFrom.fileKeyRef"


def _file_selectors(container: Object) -> Iterator[tuple[int, Object]]:
    for index, variable in enumerate(container.get("env", ())):
        if (chosen := variable.get("valueFrom", {})) and "fileKeyRef" in chosen:
            yield index, chosen["fileKeyRef"]


def validate_field_selector(selector: Object, path: str, *, known: Sequence[str] = FIELD_PATHS) -> Iterator[str]:
    """Validate a fieldRef; of a map a single key is allowed, or what `known` lists."""
    for part in ("apiVersion", "fieldPath"):
        if not selector.get(part):
            yield required(f"{path}.{part}")
            return
    version, asked = selector["apiVersion"], selector["fieldPath"]
    field, key = split_subscript(asked)
    if refused := _no_field(version, asked, field, key):
        yield invalid(f"{path}.fieldPath", asked, f"error converting fieldPath: {refused}")
        return
    field = "spec.nodeName" if field == "spec.host" else field
    if key is None:
        if field not in known:
            yield not_supported(f"{path}.fieldPath", field, sorted(known))
        return
    key = key.lower() if field == "metadata.annotations" else key
    yield from (invalid(path, key, one) for one in names.qualified_name(key))


def _no_field(version: str, asked: str, field: str, key: str | None) -> str:
    """Explain why this is no field of a pod; empty if it is one."""
    if version != "v1":
        return f"unsupported pod version: {shortened(version)}"
    if key is not None:
        return "" if field in _MAPS else f"field label does not support subscript: {shortened(asked)}"
    return "" if field in _LABELS or field == "spec.host" else f"field label not supported: {shortened(asked)}"


def validate_resource_selector(selector: Object, path: str, *, of_volume: bool = False) -> Iterator[str]:
    """Validate a resourceFieldRef and its divisor."""
    resource = selector.get("resource", "")
    if of_volume and not selector.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", resource, _RESOURCES)
    if not (unit := _unit(selector.get("divisor", "0"))):
        return
    cpu = resource in {"limits.cpu", "requests.cpu"}
    of = "cpu" if cpu else _DIVIDED.get(resource, "hugepages" if resource.startswith(_HUGE_PAGES) else "")
    if of and unit not in (("1m", "1") if cpu else _BYTES):
        said = "1m and 1" if cpu else _SAID_BYTES
        yield invalid(f"{path}.divisor", resource, f"only divisor's values {said} are supported with the {of} resource")


_DIVIDED: Final = {
    f"{kind}.{name}": said
    for kind in ("limits", "requests")
    for name, said in (("memory", "memory"), ("ephemeral-storage", "local ephemeral storage"))
}


def _unit(divisor: Any) -> str:
    """Write a divisor as the API compares it; empty for zero, which is none."""
    try:
        return canonical_quantity(divisor) if parse_quantity(divisor) else ""
    except QuantityError:  # reported by the structure check
        return ""


def _key_selector(selector: Object, path: str) -> Iterator[str]:
    name, key = selector.get("name", ""), selector.get("key", "")
    yield from (invalid(f"{path}.name", name, one) for one in names.dns_subdomain(name))
    if not key:
        yield required(f"{path}.key")
    else:
        yield from (invalid(f"{path}.key", key, one) for one in names.config_map_key(key))


def _file_key_selector(selector: Object, path: str) -> Iterator[str]:
    key, volume, file = selector.get("key", ""), selector.get("volumeName", ""), selector.get("path", "")
    if not key:
        yield required(f"{path}.key")
    yield from (invalid(f"{path}.key", key, one) for one in names.environment_name(key))
    if not volume:
        yield required(f"{path}.volumeName")
    else:
        yield from (invalid(f"{path}.volumeName", volume, one) for one in names.dns_label(volume))
    if not file:
        yield required(f"{path}.path")
    yield from without_backsteps(file, f"{path}.path")


_RULES: Final[Mapping[str, Callable[[Object, str], Iterator[str]]]] = {
    "fieldRef": validate_field_selector,
    "resourceFieldRef": validate_resource_selector,
    "configMapKeyRef": _key_selector,
    "secretKeyRef": _key_selector,
    "fileKeyRef": _file_key_selector,
}
