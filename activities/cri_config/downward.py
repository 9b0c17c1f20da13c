"""The downward API: a pod's names, labels and annotations, and its containers' requests and limits; pure.

Used for environment variables (`environment_sources`) and for downwardAPI volumes. The rules are those of
pkg/fieldpath/fieldpath.go (metadata), pkg/api/v1/resource/helpers.go (resources) and pkg/kubelet/kubelet_resources.go
(defaults of limits). Fields that only variables may refer to (spec, status) are handled by the caller.
"""

from collections.abc import Mapping
from typing import Any, Final

from proto.kubernetes.contents.field_paths import split_subscript
from proto.kubernetes.resources.pod_totals import ResourceList
from proto.kubernetes.resources.qos import resource_list
from proto.kubernetes.resources.quantity import ZERO, parse_quantity

_HUGE_PAGES: Final = "hugepages-"
_DEFAULTED: Final = ("cpu", "memory", "ephemeral-storage")
"""Not huge pages: they are never overcommitted, so a container that uses them has a limit."""
_OF_PODS: Final = ("cpu", "memory")
"""Resources for which a pod-level limit takes precedence over the node's."""
_KINDS: Final = ("limits", "requests")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\"} | dict(
    zip("\a\b\f\n\r\t\v", (rf"\{one}" for one in "abfnrtv"), strict=True)
)
_SURROGATES: Final = range(0xD800, 0xE000)


class FieldError(Exception):
    """The field cannot be read; the message is the kubelet's."""


def metadata_value(pod: Mapping[str, Any], path: str) -> str:
    """Read a field of the pod's metadata: a name, all labels or annotations, or `labels['key']`; missing ones are empty.

    Raises FieldError for any other path (ExtractFieldPathAsString).
    """
    metadata = pod.get("metadata") or {}
    parts = split_subscript(path)
    match parts:
        case "metadata.annotations" | "metadata.labels" as field, str(key):
            return str((metadata.get(field.removeprefix("metadata.")) or {}).get(key, ""))
        case _, str():
            raise FieldError(f'fieldPath "{path}" does not support subscript')
        case "metadata.annotations" | "metadata.labels" as field, None:
            return _lines(metadata.get(field.removeprefix("metadata.")) or {})
        case "metadata.name" | "metadata.namespace" | "metadata.uid" as field, None:
            return str(metadata.get(field.removeprefix("metadata.")) or "")
        case _:
            raise FieldError(f"unsupported fieldPath: {path}")


def resource_value(selector: Mapping[str, Any], container: Mapping[str, Any], defaults: ResourceList) -> str:
    """Return a container's request or limit, in units of the selector's divisor, rounded up.

    `defaults` replace limits that it does not set. Raises FieldError for an unknown resource.
    """
    wanted = str(selector.get("resource") or "")
    kind, _, name = wanted.partition(".")
    if kind not in _KINDS or not (name in _DEFAULTED or name.startswith(_HUGE_PAGES)):
        raise FieldError(f"unsupported container resource : {wanted}")
    amount = resource_list(container, kind).get(name, ZERO)
    if kind == "limits" and not amount and name in _DEFAULTED:
        amount = defaults.get(name, ZERO)
    divisor = parse_quantity(selector.get("divisor") or "0") or parse_quantity("1")
    if name == "cpu":
        return str(-(-amount.milli // divisor.milli))
    return str(-(-amount.value // divisor.value))


def default_limits(pod: Mapping[str, Any], allocatable: ResourceList) -> ResourceList:
    """Return the limits of containers that set none: the pod's own, else the node's."""
    limits = resource_list(pod.get("spec") or {}, "limits")
    return allocatable | {name: amount for name in _OF_PODS if (amount := limits.get(name)) and name in allocatable}


def find_container(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Find a regular container, else an init container; raises FieldError."""
    spec = pod.get("spec") or {}
    for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if one.get("name") == name:
            found: Mapping[str, Any] = one
            return found
    raise FieldError(f"container {name} not found")


def _lines(entries: Mapping[str, str]) -> str:
    """Format a map as `key="value"` lines, sorted by key (FormatMap)."""
    return "\n".join(f"{key}={quoted(entries[key])}" for key in sorted(entries))


def quoted(text: str) -> str:
    """Quote like Go's strconv.Quote: printable characters stay as they are."""
    return '"' + "".join(_escaped(sign) for sign in text) + '"'


def _escaped(sign: str) -> str:
    code = ord(sign)
    if (short := _ESCAPES.get(sign)) is not None:
        return short
    if code in _SURROGATES:
        return r"\ufffd"
    if sign.isprintable():
        return sign
    if code < ord(" ") or sign == "\x7f":
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
