"""Errors about one field, in the API's words: path, kind of error, value, and what is valid.

The wording is that of k8s.io/apimachinery pkg/util/validation/field, because operators search for it. Values are
shortened, so that a message stays readable.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

_LONGEST: Final = 120
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


class Key(str):
    """A step of a path that is a key of a map, not a field of the API."""

    __slots__ = ()


def key_path(steps: Sequence[str | int]) -> str:
    """Write a path as Kubernetes does: `spec.containers[0].name`, `metadata.labels[example.com/app]`."""
    path = ""
    for step in steps:
        match step:
            case str() if not isinstance(step, Key) and _PLAIN_KEY.fullmatch(step) and len(step) <= _LONGEST:
                path += f".{step}" if path else step
            case str():
                path += f"[{_printable(step)}]"
            case int():
                path += f"[{step}]"
    return path


def required(path: str, detail: str = "") -> str:
    """The field is missing."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def invalid(path: str, value: Any, detail: str) -> str:
    """The value is invalid."""
    return f"{path}: Invalid value: {quoted(value)}: {detail}"


def not_supported(path: str, value: Any, values: Sequence[str]) -> str:
    """The value is none of those that the API knows."""
    return f"{path}: Unsupported value: {quoted(value)}: supported values: {', '.join(quoted(one) for one in values)}"


def duplicate(path: str, value: str) -> str:
    """Another item has this value already."""
    return f"{path}: Duplicate value: {quoted(value)}"


def forbidden(path: str, detail: str) -> str:
    """The field must not be set here."""
    return f"{path}: Forbidden: {detail}"


def not_found(path: str, value: str) -> str:
    """There is nothing of this name."""
    return f"{path}: Not found: {quoted(value)}"


def too_long(path: str, most: int) -> str:
    """The value has too many bytes."""
    return f"{path}: Too long: may not be more than {most} bytes"


def too_many(path: str, count: int, most: int) -> str:
    """There are too many items."""
    return f"{path}: Too many: {count}: must have at most {most} items"


def quoted(value: Any) -> str:
    """Write a JSON value, shortened; for a list or an object only which of the two it is."""
    match value:
        case str():
            short = shortened(value)
            return json.dumps(short, ensure_ascii=not short.isprintable())
        case list():
            return "[…]"
        case dict():
            return "{…}"
        case _:
            return shortened(json.dumps(value))


def shortened(text: str) -> str:
    """Shorten long text."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _printable(key: str) -> str:
    short = shortened(key)
    return short if short.isprintable() else json.dumps(short)
