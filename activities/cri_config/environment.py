"""A container's environment, and the `$(NAME)` references in its command and arguments; pure.

Used when a container is prepared, and by probes and hooks for their commands. The rules are the kubelet's: `env` takes
precedence over `envFrom`, a reference sees what is declared above it, an unknown one stays as it is written, `$$` is a
dollar sign (pkg/kubelet/kubelet_pods.go makeEnvironmentVariables, third_party/forked/golang/expansion). Services add
variables only with an API server (`service_links`). Values from objects are confidential, and so is everything that
refers to them: `runtime/confidential.py` redacts them.
"""

import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final

from activities.cri_config.downward import FieldError, default_limits, find_container, metadata_value, resource_value
from activities.objects.objects import ObjectKind
from proto.kubernetes.contents.variable_sources import variable_objects
from proto.kubernetes.resources.pod_totals import ResourceList

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_KINDS: Final[Mapping[str, tuple[ObjectKind, str]]] = {
    "configMapRef": (ObjectKind.CONFIG_MAPS, "ConfigMap"),
    "configMapKeyRef": (ObjectKind.CONFIG_MAPS, "ConfigMap"),
    "secretRef": (ObjectKind.SECRETS, "Secret"),
    "secretKeyRef": (ObjectKind.SECRETS, "Secret"),
}
"""The kinds that a source of variables refers to, and the kubelet's names for them in messages."""

Reference = tuple[ObjectKind, str]
"""An object in the pod's namespace."""
FileReference = tuple[str, str, str]
"""A volume, the path of a file in it, and a variable in the file."""
_LONG: Final = 6
"""A device plugin's shorter value is a number or a switch, and no secret."""
_CONFIDENTIAL: Final = frozenset({*_KINDS, "fileKeyRef"})


class UnresolvedVariable(Exception):
    """A variable has no value; the message is the kubelet's and names the variable or its source, never a value."""


@dataclass(frozen=True, slots=True)
class Absent:
    """An object that could not be read, and the message about it."""

    words: str
    missing: bool
    """It does not exist, which is fine for optional references; otherwise it exists and cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Everything that variables may refer to, read before they are resolved."""

    pod: Mapping[str, Any]
    """Metadata and spec, at least the fields that the container's fieldRefs name."""
    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    allocatable: ResourceList = field(default_factory=dict)
    """The node's allocatable resources: they replace limits that are not set."""
    objects: Mapping[Reference, Mapping[str, str] | Absent] = field(default_factory=dict, repr=False)
    files: Mapping[FileReference, str | Absent] = field(default_factory=dict, repr=False)
    """Values from files in volumes; empty if the file does not have the variable."""
    services: Mapping[str, str] = field(default_factory=dict)
    """The variables of Services: the container's own may refer to them, and override them."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A container's variables, in the order of their first declaration."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """They go to the runtime and nowhere else. Bytes that are not UTF-8 are kept as surrogates (PEP 383)."""
    confidential: frozenset[str] = frozenset()
    """Names whose value came from an object, or refers to one that did."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each known `$(NAME)`, and `$$` by `$`; everything else stays."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


def names_in(text: str) -> tuple[str, ...]:
    """List the names that a text refers to, in order."""
    return tuple(match[1] for match in _REFERENCE.finditer(text) if match[1] is not None)


def refers_to(text: str, names: Set[str]) -> bool:
    """Report whether a text refers to one of these variables."""
    return not names.isdisjoint(names_in(text))


def references(container: Mapping[str, Any]) -> tuple[Reference, ...]:
    """List the objects that a container's variables refer to, each once, in the kubelet's order."""
    return tuple(dict.fromkeys((ObjectKind(plural), name) for plural, name in variable_objects(container)))


def file_references(container: Mapping[str, Any]) -> tuple[FileReference, ...]:
    """List the variables that are read from files in volumes."""
    chosen = ((one.get("valueFrom") or {}).get("fileKeyRef") for one in container.get("env") or ())
    return tuple(dict.fromkeys(_file_reference(one) for one in chosen if one))


def resolve_environment(container: Mapping[str, Any], sources: Sources) -> Environment:
    """Resolve all variables; if a name is declared twice, the last one wins. Raises UnresolvedVariable."""
    values: dict[str, str] = {}
    known = ChainMap(values, dict(sources.services))
    confidential: set[str] = set()
    for source in container.get("envFrom") or ():
        brought = _all_of(source, sources)
        values |= brought
        confidential |= brought.keys()
    for variable in container.get("env") or ():
        name, text, chosen = variable["name"], variable.get("value") or "", variable.get("valueFrom") or {}
        has_text = text or not chosen
        value = expand(text, known) if has_text else _value_from(chosen, container, sources)
        if value is None:  # an optional one that is missing: the value from envFrom or from above stays
            continue
        hidden = refers_to(text, confidential) if has_text else not chosen.keys().isdisjoint(_CONFIDENTIAL)
        if hidden:
            confidential.add(name)
        else:
            confidential.discard(name)
        values[name] = value
    _refuse_nul(values)
    return Environment({**values, **_unlike(sources.services, values)}, frozenset(confidential))


def with_device_variables(environment: Environment, given: Mapping[str, str]) -> Environment:
    """Add the variables of device plugins; the container's own replace them, but cannot refer to them. Raises UnresolvedVariable."""
    new = {name: value for name, value in given.items() if name not in environment.values}
    _refuse_nul(new)
    confidential = (name for name, value in new.items() if len(value) >= _LONG)
    return Environment({**new, **environment.values}, environment.confidential.union(confidential))


def _refuse_nul(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if "\0" in value:  # the runtime's error would quote the value
            raise UnresolvedVariable(f"env {name}: its value holds a NUL byte, which no environment can")


def _unlike(services: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in services.items() if name not in values}


def _all_of(source: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    """Return all keys of an object as variables; none if it is optional and missing."""
    prefix = source.get("prefix") or ""
    for ref in ("configMapRef", "secretRef"):
        if chosen := source.get(ref):
            data = _object(ref, chosen, sources)
            return {f"{prefix}{key}": value for key, value in (data or {}).items()}
    return {}


def _object(ref: str, chosen: Mapping[str, Any], sources: Sources) -> Mapping[str, str] | None:
    """Look an object up; None if it is optional and missing. Raises UnresolvedVariable."""
    kind, _ = _KINDS[ref]
    found = sources.objects[kind, chosen.get("name", "")]
    if not isinstance(found, Absent):
        return found
    if found.missing and chosen.get("optional"):
        return None
    raise UnresolvedVariable(found.words)


def _value_from(chosen: Mapping[str, Any], container: Mapping[str, Any], sources: Sources) -> str | None:
    """Return a variable's value from its source; None if that is optional and missing."""
    try:
        match chosen:
            case {"fieldRef": selector}:
                return _field(str(selector.get("fieldPath") or ""), sources)
            case {"resourceFieldRef": selector}:
                return _resource(selector, container, sources)
            case {"fileKeyRef": selector}:
                return _from_file(selector, sources)
    except FieldError as error:
        raise UnresolvedVariable(str(error)) from error
    return next((_key(ref, chosen[ref], sources) for ref in _KINDS if chosen.get(ref)), "")


def _key(ref: str, chosen: Mapping[str, Any], sources: Sources) -> str | None:
    data = _object(ref, chosen, sources)
    if data is None:
        return None
    key = str(chosen.get("key") or "")
    if key not in data and not chosen.get("optional"):
        namespace = (sources.pod.get("metadata") or {}).get("namespace", "")
        where = f"{_KINDS[ref][1]} {namespace}/{chosen.get('name', '')}"
        raise UnresolvedVariable(f"couldn't find key {key} in {where}")
    return data.get(key)


def _file_reference(selector: Mapping[str, Any]) -> FileReference:
    return str(selector.get("volumeName")), str(selector.get("path")), str(selector.get("key"))


def _from_file(selector: Mapping[str, Any], sources: Sources) -> str | None:
    """Return a value from a file; a missing file is an error even if the variable is optional, as in the kubelet."""
    found, (_, path, key) = sources.files[_file_reference(selector)], _file_reference(selector)
    if isinstance(found, Absent):
        raise UnresolvedVariable(found.words)
    if not found and not selector.get("optional"):
        raise UnresolvedVariable(f'environment variable key "{key}" not found in file "{path}"')
    return found or None


def _field(path: str, sources: Sources) -> str:
    """Read a field of the pod that only variables may refer to, else of its metadata (podFieldSelectorRuntimeValue)."""
    read = _FIELDS.get(path)
    return read(sources) if read else metadata_value(sources.pod, path)


def _spec(field_name: str, sources: Sources) -> str:
    return str((sources.pod.get("spec") or {}).get(field_name) or "")


def _host_ips(sources: Sources) -> tuple[str, ...]:
    if not sources.host_ips:
        raise UnresolvedVariable("the node has no address; set nodeIPs")
    return sources.host_ips


def _pod_ips(sources: Sources) -> tuple[str, ...]:
    """Sort the pod's addresses: first one of the node's primary family, then one of the other (sortPodIPs)."""
    six = bool(sources.host_ips) and ":" in sources.host_ips[0]
    own, other = (
        [ip for ip in sources.pod_ips if (":" in ip) is six],
        [ip for ip in sources.pod_ips if (":" in ip) is not six],
    )
    return (*own[:1], *other[:1])


_FIELDS: Final[Mapping[str, Callable[[Sources], str]]] = {
    "spec.nodeName": lambda sources: _spec("nodeName", sources),
    "spec.host": lambda sources: _spec("nodeName", sources),  # its old name
    "spec.serviceAccountName": lambda sources: _spec("serviceAccountName", sources),
    "status.hostIP": lambda sources: _host_ips(sources)[0],
    "status.hostIPs": lambda sources: ",".join(_host_ips(sources)),
    "status.podIP": lambda sources: ",".join(_pod_ips(sources)[:1]),
    "status.podIPs": lambda sources: ",".join(_pod_ips(sources)),
}


def _resource(selector: Mapping[str, Any], container: Mapping[str, Any], sources: Sources) -> str:
    """Return a container's request or limit; another init container's has no default limit, as in the kubelet."""
    defaults = default_limits(sources.pod, sources.allocatable)
    if not (name := selector.get("containerName")):
        return resource_value(selector, container, defaults)
    regular = any(one.get("name") == name for one in (sources.pod.get("spec") or {}).get("containers") or ())
    return resource_value(selector, find_container(sources.pod, name), defaults if regular else {})
