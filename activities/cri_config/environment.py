"""A container's environment, and the `$(NAME)` references of its command and arguments.

Pure; asked while a container is prepared, and by probes for what a command refers to. The rules are the kubelet's: what
`env` says goes before what `envFrom` brings, a reference sees what is declared above it, an unknown one stays as it is
written, `$$` is a dollar sign (pkg/kubelet/kubelet_pods.go makeEnvironmentVariables, third_party/forked/golang/expansion).
Services add variables only where there is an API server to list them from (`service_links`), so a standalone node adds
none. Values that came out of an object are confidential, and so is what refers to them: `confidential.py` keeps them out of
what is told.
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
"""What each source of variables refers to, and how the kubelet's messages call it."""

Reference = tuple[ObjectKind, str]
"""An object of the pod's namespace."""
FileReference = tuple[str, str, str]
"""A volume, the path of a file in it, and a variable there."""
_CONFIDENTIAL: Final = frozenset({*_KINDS, "fileKeyRef"})


class UnresolvedVariable(Exception):
    """A variable has no value; the message is the kubelet's, names the variable or its source, never a value."""


@dataclass(frozen=True, slots=True)
class Absent:
    """An object that was asked for and could not be had, and the words for it."""

    words: str
    missing: bool
    """There is none: an optional reference may pass it over. Else there is one that is not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All that variables may come from, read before they are resolved."""

    pod: Mapping[str, Any]
    """Metadata and spec, of this at the least what the container's fieldRefs name."""
    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    allocatable: ResourceList = field(default_factory=dict)
    """What the node has for pods: it stands in for limits that nobody sets."""
    objects: Mapping[Reference, Mapping[str, str] | Absent] = field(default_factory=dict, repr=False)
    files: Mapping[FileReference, str | Absent] = field(default_factory=dict, repr=False)
    """What files in volumes say; empty text where they do not."""
    services: Mapping[str, str] = field(default_factory=dict)
    """The variables of Services, which a variable of the container's own may refer to, and goes before."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A container's variables, in the order of their first declaration."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """They go to the runtime and nowhere else. Bytes that are no UTF-8 are kept as surrogates (PEP 383)."""
    confidential: frozenset[str] = frozenset()
    """Whose value came out of an object, or refers to one that did."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` that is known, and `$$` by `$`; everything else stays."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


def names_in(text: str) -> tuple[str, ...]:
    """List the names that a text refers to, in their order."""
    return tuple(match[1] for match in _REFERENCE.finditer(text) if match[1] is not None)


def refers_to(text: str, names: Set[str]) -> bool:
    """Say whether a text refers to one of these variables."""
    return not names.isdisjoint(names_in(text))


def references(container: Mapping[str, Any]) -> tuple[Reference, ...]:
    """List the objects that a container's variables come from, each once, in the order in which they are asked for."""
    return tuple(dict.fromkeys((ObjectKind(plural), name) for plural, name in variable_objects(container)))


def file_references(container: Mapping[str, Any]) -> tuple[FileReference, ...]:
    """List the variables that are read from files in volumes."""
    chosen = ((one.get("valueFrom") or {}).get("fileKeyRef") for one in container.get("env") or ())
    return tuple(dict.fromkeys(_file_reference(one) for one in chosen if one))


def resolve_environment(container: Mapping[str, Any], sources: Sources) -> Environment:
    """Give each variable its value; of a name declared twice the last one counts. Raises UnresolvedVariable."""
    values: dict[str, str] = {}
    known = ChainMap(values, dict(sources.services))
    confidential: set[str] = set()
    for source in container.get("envFrom") or ():
        brought = _all_of(source, sources)
        values |= brought
        confidential |= brought.keys()
    for variable in container.get("env") or ():
        name, text, chosen = variable["name"], variable.get("value") or "", variable.get("valueFrom") or {}
        told = text or not chosen
        value = expand(text, known) if told else _value_from(chosen, container, sources)
        if value is None:  # an optional one that is not there: what envFrom or a line above says stays
            continue
        hidden = refers_to(text, confidential) if told else not chosen.keys().isdisjoint(_CONFIDENTIAL)
        if hidden:
            confidential.add(name)
        else:
            confidential.discard(name)
        values[name] = value
    for name, value in values.items():
        if "\0" in value:  # the runtime would refuse it with words that quote the value
            raise UnresolvedVariable(f"env {name}: its value holds a NUL byte, which no environment can")
    return Environment({**values, **_unlike(sources.services, values)}, frozenset(confidential))


def _unlike(services: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in services.items() if name not in values}


def _all_of(source: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    """Take all keys of an object as variables; nothing of one that is optional and not there."""
    prefix = source.get("prefix") or ""
    for ref in ("configMapRef", "secretRef"):
        if chosen := source.get(ref):
            data = _object(ref, chosen, sources)
            return {f"{prefix}{key}": value for key, value in (data or {}).items()}
    return {}


def _object(ref: str, chosen: Mapping[str, Any], sources: Sources) -> Mapping[str, str] | None:
    """Look an object up; None where it is optional and there is none. Raises UnresolvedVariable."""
    kind, _ = _KINDS[ref]
    found = sources.objects[kind, chosen.get("name", "")]
    if not isinstance(found, Absent):
        return found
    if found.missing and chosen.get("optional"):
        return None
    raise UnresolvedVariable(found.words)


def _value_from(chosen: Mapping[str, Any], container: Mapping[str, Any], sources: Sources) -> str | None:
    """Answer a variable's value from where it says; None where that is optional and not there."""
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
    """Answer what a file says; a file that is not there is a fault also where the variable is optional, as for the kubelet."""
    found, (_, path, key) = sources.files[_file_reference(selector)], _file_reference(selector)
    if isinstance(found, Absent):
        raise UnresolvedVariable(found.words)
    if not found and not selector.get("optional"):
        raise UnresolvedVariable(f'environment variable key "{key}" not found in file "{path}"')
    return found or None


def _field(path: str, sources: Sources) -> str:
    """Read a field of the pod that only a variable may name, else of its metadata (podFieldSelectorRuntimeValue)."""
    read = _FIELDS.get(path)
    return read(sources) if read else metadata_value(sources.pod, path)


def _spec(field_name: str, sources: Sources) -> str:
    return str((sources.pod.get("spec") or {}).get(field_name) or "")


def _host_ips(sources: Sources) -> tuple[str, ...]:
    if not sources.host_ips:
        raise UnresolvedVariable("the node has no address; set nodeIPs")
    return sources.host_ips


def _pod_ips(sources: Sources) -> tuple[str, ...]:
    """Order the pod's addresses: one of the node's own family first, then one of the other (sortPodIPs)."""
    six = bool(sources.host_ips) and ":" in sources.host_ips[0]
    own, other = (
        [ip for ip in sources.pod_ips if (":" in ip) is six],
        [ip for ip in sources.pod_ips if (":" in ip) is not six],
    )
    return (*own[:1], *other[:1])


_FIELDS: Final[Mapping[str, Callable[[Sources], str]]] = {
    "spec.nodeName": lambda sources: _spec("nodeName", sources),
    "spec.host": lambda sources: _spec("nodeName", sources),  # what it was called once
    "spec.serviceAccountName": lambda sources: _spec("serviceAccountName", sources),
    "status.hostIP": lambda sources: _host_ips(sources)[0],
    "status.hostIPs": lambda sources: ",".join(_host_ips(sources)),
    "status.podIP": lambda sources: ",".join(_pod_ips(sources)[:1]),
    "status.podIPs": lambda sources: ",".join(_pod_ips(sources)),
}


def _resource(selector: Mapping[str, Any], container: Mapping[str, Any], sources: Sources) -> str:
    """Say what a container may use; an init container named by another one has no default limits, as for the kubelet."""
    defaults = default_limits(sources.pod, sources.allocatable)
    if not (name := selector.get("containerName")):
        return resource_value(selector, container, defaults)
    regular = any(one.get("name") == name for one in (sources.pod.get("spec") or {}).get("containers") or ())
    return resource_value(selector, find_container(sources.pod, name), defaults if regular else {})
