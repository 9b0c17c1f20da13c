"""The structure of a pod: only known fields, each of its kind, and which of them are supported.

Called by the poller with the parsed YAML or JSON before anything else reads it. All errors are reported, not only the
first. Nulls count as absent, as in Kubernetes' decoder, and are dropped. Quantities are returned in the API's canonical
form, numbers included (`cpu: 1`, `sizeLimit: 1048576`).
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from proto.kubernetes.resources.quantity import QuantityError, canonical_quantity
from proto.temporal.pod import PodJson
from workflows.decide.manifest.fields.field_errors import Key, invalid, key_path, quoted
from workflows.decide.manifest.fields.field_kinds import Field, Fields, Kind, Support

_BITS: Final = {Kind.INT32: 31, Kind.INT64: 63, Kind.INT_OR_STRING: 31}
_YAML_BOOLEANS: Final = "YAML reads an unquoted yes, no, on, off, y, n, true or false as a boolean; quote it"
_MOST_LIKELY: Final = 0.75
_LONGEST_GUESSED: Final = 60


@dataclass(frozen=True, slots=True)
class Structure:
    """The pod without nulls, the errors in its structure, and what this version does not support yet."""

    content: PodJson
    faults: tuple[str, ...]
    not_yet: tuple[str, ...]


@dataclass(slots=True)
class _Walk:
    """The current path, and what was found so far."""

    path: list[str | int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    not_yet: list[str] = field(default_factory=list)

    def here(self) -> str:
        return key_path(self.path)

    def wrong_kind(self, kind: Kind, value: Any) -> None:
        self.faults.append(f"{self.here()}: must be {kind}, not {_name(kind, value)}")


_ABSENT: Final = object()


def read_structure(document: Mapping[str, Any], fields: Fields) -> Structure:
    """Read a pod along the table of its fields."""
    walk = _Walk()
    content = _mapping(walk, document, fields)
    for part in ("metadata", "spec"):
        content.setdefault(part, {})
    return Structure(content, tuple(walk.faults), tuple(walk.not_yet))


def read_part(document: Mapping[str, Any], fields: Fields, steps: tuple[str, ...]) -> tuple[PodJson, tuple[str, ...]]:
    """Read an object that stands as text at a path of the pod; returns it without nulls, and its errors."""
    walk = _Walk(list(steps))
    content = _mapping(walk, document, fields)
    return content, (*walk.faults, *walk.not_yet)


def _mapping(walk: _Walk, document: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in document.items():
        walk.path.append(name)
        known = fields.get(name)
        if known is None:
            walk.faults.append(f"{walk.here()}: unknown field{_guess(name, fields)}")
        elif value is not None and (read := _field(walk, value, known)) is not _ABSENT:
            content[name] = read
        walk.path.pop()
    return content


def _field(walk: _Walk, value: Any, known: Field) -> Any:
    """Read a field's value; a rejected one is returned as absent."""
    if known.support is Support.NOT_YET:
        walk.not_yet.append(f"{walk.here()}: not supported{_instead(known)}")
        return _ABSENT
    if known.support is Support.SOME_VALUES:
        return _one_of(walk, value, known)
    found = _value(walk, value, known)
    _refuse_never(walk, found, known.never)
    return found


def _instead(known: Field) -> str:
    return f": {known.instead}" if known.instead else " yet"


def _one_of(walk: _Walk, value: Any, known: Field) -> Any:
    if any(type(value) is type(one) and value == one for one in known.only):
        return value
    if isinstance(value, list | dict) or _is_scalar_of(known.kind, value):
        accepted = [quoted(one) for one in known.only if not isinstance(one, list | dict) and one != ""]
        hint = f" (only {' or '.join(accepted)} is)" if accepted else ""
        walk.not_yet.append(f"{walk.here()}: not supported{_instead(known)}{hint}")
    else:
        walk.wrong_kind(known.kind, value)
    return _ABSENT


def _refuse_never(walk: _Walk, found: Any, never: tuple[str, ...]) -> None:
    if isinstance(found, dict):
        for key in found:
            if any(fnmatchcase(key, pattern) for pattern in never):
                walk.not_yet.append(f"{key_path([*walk.path, Key(key)])}: not supported yet")
    elif found in never:
        walk.not_yet.append(f"{walk.here()}: not supported yet: {quoted(found)}")


def _value(walk: _Walk, value: Any, known: Field) -> Any:
    match known.kind, value:
        case Kind.OBJECT, dict():
            return _mapping(walk, value, known.inside or {})
        case Kind.OBJECTS, list():
            return _items(walk, value, Field(Kind.OBJECT, Support.RUNS, known.inside))
        case Kind.STRINGS, list():
            return _items(walk, value, Field(Kind.STRING, Support.RUNS))
        case ((Kind.INT32S | Kind.INT64S), list()):
            single = Kind.INT32 if known.kind is Kind.INT32S else Kind.INT64
            return _items(walk, value, Field(single, Support.RUNS))
        case ((Kind.STRING_MAP | Kind.QUANTITY_MAP), dict()):
            return _free_mapping(walk, value, known.kind)
        case Kind.QUANTITY, _:
            return _quantity(walk, value)
        case ((Kind.STRING | Kind.INT_OR_STRING), str()):
            return _text(walk, value)
        case kind, _ if _is_scalar_of(kind, value):
            return value
    walk.wrong_kind(known.kind, value)
    return _ABSENT


def _items(walk: _Walk, values: list[Any], known: Field) -> list[Any]:
    items: list[Any] = []
    for index, value in enumerate(values):
        walk.path.append(index)
        items.append(_value(walk, value, known))
        walk.path.pop()
    return items


def _free_mapping(walk: _Walk, values: Mapping[str, Any], kind: Kind) -> dict[str, str]:
    """Read a mapping whose keys are the operator's; a null value is an empty string or zero, as in Go."""
    found: dict[str, str] = {}
    for key, value in values.items():
        walk.path.append(Key(key))
        _text(walk, key)
        if kind is Kind.QUANTITY_MAP:
            found[key] = _quantity(walk, value)
        elif value is None:
            found[key] = ""
        elif isinstance(value, str):
            found[key] = _text(walk, value)
        else:
            walk.wrong_kind(Kind.STRING, value)
        walk.path.pop()
    return found


def _quantity(walk: _Walk, value: Any) -> str:
    try:
        return canonical_quantity(0 if value is None else value)
    except QuantityError as error:
        walk.faults.append(invalid(walk.here(), value, str(error)))
        return "0"


def _text(walk: _Walk, text: str) -> str:
    """Reject what no program can be given: NUL, and lone surrogates, which JSON can contain."""
    if "\0" in text:
        walk.faults.append(f"{walk.here()}: must not contain a NUL character")
    elif not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        walk.faults.append(f"{walk.here()}: must not contain half a surrogate pair")
    return text


def _is_scalar_of(kind: Kind, value: Any) -> bool:
    match kind:
        case Kind.STRING | Kind.TIME:
            return isinstance(value, str)
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.INT_OR_STRING if isinstance(value, str):
            return True
        case Kind.INT32 | Kind.INT64 | Kind.INT_OR_STRING:
            bound = 1 << _BITS[kind]
            return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
        case _:
            return False


def _name(kind: Kind, value: Any) -> str:
    """Describe the wrong value and how to correct it, without the value itself: it may be a secret."""
    match value:
        case bool() if kind is Kind.STRING:
            return f"a boolean ({_YAML_BOOLEANS})"
        case bool():
            return "a boolean"
        case int() | float() if kind is Kind.STRING:
            return "a number; quote it"
        case int() if kind in _BITS:
            return "a larger number"
        case float() if kind in _BITS:
            return "a number with a fraction or an exponent"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case None:
            return "null"
        case list():
            return "a list"
        case _:
            return "an object"


def _guess(name: str, fields: Fields) -> str:
    """Suggest a field: one with the same letters, else the nearest."""
    if name in {"true", "false"}:
        return f"; {_YAML_BOOLEANS}"
    if len(name) > _LONGEST_GUESSED:
        return ""
    letters = name.replace("_", "").replace("-", "").lower()
    same = [known for known in fields if known.lower() == letters]
    near = same or difflib.get_close_matches(name, fields, n=1, cutoff=_MOST_LIKELY)
    return f"; did you mean {near[0]}?" if near else ""
