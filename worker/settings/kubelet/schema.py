"""The schema of KubeletConfiguration v1beta1: every key with its type and default, from the kubelet's own types.

The table is `schema.json`, printed by `deploy/kubelet_schema/main.go`. Used by `configuration` (keys) and
`feature_gates`. Values are checked as by Go's decoder: a wrong type is an error that names the key, an unknown key is
only reported to the caller, who decides (the kubelet warns and continues).
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from proto.kubernetes.go_duration import format_duration, parse_duration

_INTEGERS: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
}
_QUANTITY: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)


class WrongValue(Exception):
    """A value that its key cannot hold; the message names the key's path and both types."""


@dataclass(frozen=True, slots=True)
class Schema:
    """All keys, and all feature gates, of one version of the kubelet."""

    version: str
    fields: Mapping[str, Any]
    feature_gates: Mapping[str, Any]


@functools.cache
def load_schema() -> Schema:
    """Read the table, once a process."""
    raw = json.loads((Path(__file__).parent / "schema.json").read_bytes())
    return Schema(raw["version"], raw["fields"], raw["featureGates"])


@dataclass(slots=True)
class Checked:
    """A checked configuration: its values as JSON, and the paths of unknown keys."""

    content: dict[str, Any] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def check_fields(content: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> Checked:
    """Check a whole configuration, the kubelet's or one of other `fields`; nulls and unknown keys are left out.

    Raises WrongValue.
    """
    checked = Checked()
    checked.content = _object(content, load_schema().fields if fields is None else fields, "", checked.unknown)
    return checked


def default_values() -> dict[str, Any]:
    """Return every key that has a default, nested as in a configuration."""
    return _defaults(load_schema().fields)


def leaves(
    content: Mapping[str, Any], fields: Mapping[str, Any] | None = None, path: str = ""
) -> Iterator[tuple[str, Any]]:
    """Walk a configuration's values: nested objects by dotted path, lists and maps as one value each."""
    for key, value in content.items():
        schema = (fields if fields is not None else load_schema().fields)[key]
        where = f"{path}{key}"
        if schema["type"] == "object":
            yield from leaves(value, schema["fields"], f"{where}.")
        else:
            yield where, value


def is_duration(path: str) -> bool:
    """Report whether a key, by its dotted path, holds a duration; raises KeyError for an unknown key."""
    schema: Any = {"fields": load_schema().fields}
    for key in path.split("."):
        schema = schema["fields"][key]
    return str(schema["type"]).startswith("duration")


def _defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, schema in fields.items():
        if schema["type"] == "object":
            found[key] = _defaults(schema["fields"])
        elif "default" in schema:
            found[key] = schema["default"]
    return found


def _object(content: Any, fields: Mapping[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise WrongValue(f"{path.rstrip('.')}: {_said(content)}; must be a mapping")
    found = {}
    for key, value in content.items():
        where = f"{path}{key}"
        if key not in fields:
            unknown.append(where)
        elif value is not None:
            found[key] = _value(value, fields[key], where, unknown)
    return found


def _value(value: Any, schema: Mapping[str, Any], path: str, unknown: list[str]) -> Any:
    match schema["type"]:
        case "object":
            return _object(value, schema["fields"], f"{path}.", unknown)
        case "list":
            if not isinstance(value, list):
                raise WrongValue(f"{path}: {_said(value)}; must be a list")
            return [_value(one, schema["of"], f"{path}[{index}]", unknown) for index, one in enumerate(value)]
        case "map":
            if not isinstance(value, Mapping):
                raise WrongValue(f"{path}: {_said(value)}; must be a mapping")
            return {key: _value(one, schema["of"], f"{path}.{key}", unknown) for key, one in value.items()}
        case scalar:
            return _scalar(value, scalar, path)


def _scalar(value: Any, kind: str, path: str) -> Any:
    if kind == "duration|nanoseconds" and isinstance(value, int) and not isinstance(value, bool):
        return format_duration(timedelta(microseconds=value / 1000))
    if kind.startswith("duration"):
        if not isinstance(value, str):
            raise WrongValue(f"{path}: {_said(value)}; must be a duration, quoted text such as 1m30s")
        try:
            parse_duration(value)
        except ValueError as error:
            raise WrongValue(f"{path}: {error}") from error
        return value
    if kind == "quantity":
        if isinstance(value, bool) or not _QUANTITY.fullmatch(str(value)):
            raise WrongValue(f"{path}: {_said(value)}; must be a quantity, such as 512Mi or 0.5")
        return str(value)
    if not _fits(value, kind):
        raise WrongValue(f"{path}: {_said(value)}; must be {_NAMES.get(kind, kind)}")
    return value


_NAMES: Final = {
    "bool": "true or false",
    "string": "text (quote it)",
    "int32": "a whole number (int32)",
    "int64": "a whole number (int64)",
    "uint32": "a whole number from 0 (uint32)",
    "float64": "a number",
}


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "float64":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            low, high = _INTEGERS[kind]
            return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _said(value: Any) -> str:
    match value:
        case bool():
            return f"{str(value).lower()} is true or false"
        case int() | float():
            return f"{value} is a number"
        case str():
            return f"{value[:60]!r} is text"
        case list():
            return "it is a list"
        case Mapping():
            return "it is a mapping"
        case _:
            return "it is empty"
