"""Reads YAML as Kubernetes does, but strictly, and with a limit on the expansion of aliases.

Called by `manifest_document` only. Kubernetes converts YAML to JSON with sigs.k8s.io/yaml (go.yaml.in/yaml v2), so
plain scalars mean the same here: `yes` and `on` are true, `017`, `0o17` and `0x0f` are 15, `1e3` is 1000, a date stays
text, a merge key overrides the keys before it. Stricter than Kubernetes: duplicate keys, tags and a second document are
refused. Values are built from libyaml's event stream, one event at a time, because PyYAML's own composer needs ten
times the memory, recurses until the process crashes, and expands aliases without limit.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from worker.documents.manifest_refusal import DEEPEST, MOST_CHARACTERS, MOST_VALUES, ManifestUnreadable
from workflows.decide.manifest.fields.field_errors import key_path

_Parser: Final[Any] = yaml.CSafeLoader  # libyaml; its marks and events are those of PyYAML
_WORDS: Final[dict[str, bool | float | None]] = (
    dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
    | dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
    | dict.fromkeys(("", "~", "null", "Null", "NULL"), None)
    | dict.fromkeys((f"{sign}.{word}" for sign in ("", "+", "-") for word in ("inf", "Inf", "INF")), math.inf)
    | dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
)
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BETWEEN_DIGITS: Final = re.compile(r"(?<=[0-9])_(?=[0-9])")
_LONGEST_NUMBER: Final = 400  # characters; Go reads no longer number as finite
_WIDEST_INTEGER: Final = 10.0**21  # from here on Go formats a float with an exponent
_MERGE: Final = "<<"


@dataclass(slots=True)
class _Anchored:
    """The value of an anchor, and what each use of it counts."""

    value: Any
    values: int
    characters: int
    complete: bool = True


@dataclass(slots=True)
class _Mapping:
    """A mapping under construction: its values, and the line of each explicit key."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def read_yaml(data: bytes) -> Any:
    """Read the one document in UTF-8 bytes; None if there is none.

    Raises ManifestUnreadable, which names line and field.
    """
    reader = _Reader(data)
    try:
        return reader.document()
    except yaml.YAMLError as error:
        raise ManifestUnreadable("InvalidYAML", _one_line(error)) from error
    finally:
        reader.close()


def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    digits = _BETWEEN_DIGITS.sub("", text) if text[0] == "." else text.replace("_", "")
    if (match := _INTEGER.fullmatch(digits)) and (whole := _integer(match)) is not None:
        return whole
    if not _FLOAT.fullmatch(digits):
        return text
    number = float(digits)
    if math.isinf(number):
        return text
    return int(number) if number.is_integer() and abs(number) < _WIDEST_INTEGER else number


def _integer(match: re.Match[str]) -> int | None:
    """Parse an integer of any base; None beyond 64 bits."""
    base, digits = next((base, one) for base, one in zip(_BASES, match.groups()[1:], strict=True) if one)
    number = -int(digits, base) if match[1] == "-" else int(digits, base)
    return number if -(2**63) <= number < 2**64 else None


class _Reader:
    """Builds values from events, and counts them as often as aliases repeat them."""

    def __init__(self, data: bytes) -> None:
        self._parser = _Parser(data)
        self._anchors: dict[str, _Anchored] = {}
        self._values = self._characters = 0
        self._path: list[str | int] = []

    def close(self) -> None:
        """Free libyaml's buffers."""
        self._parser.dispose()

    def document(self) -> Any:
        """Read the stream, which may hold one document besides empty ones."""
        found: list[Any] = []
        while not isinstance(event := self._parser.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                start = _at(event)
                self._anchors.clear()
                value = self._value(self._parser.get_event())
                if value is not None and found:
                    raise ManifestUnreadable(
                        "SeveralDocuments", f"{start}: a second document; put each pod into a file of its own"
                    )
                if value is not None:
                    found.append(value)
        return found[0] if found else None

    def _value(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!", 1)
            raise self._refuse(event, f"the tag {_short(tag)} is not supported; write the value without it")
        values, characters = self._values, self._characters
        anchored = None
        if event.anchor is not None:
            anchored = self._anchors[event.anchor] = _Anchored(None, 0, 0, complete=False)
        match event:
            case yaml.ScalarEvent():
                value = self._scalar(event)
            case yaml.SequenceStartEvent():
                value = self._sequence(event)
            case _:
                value = self._mapping(event)
        if anchored:
            anchored.value, anchored.complete = value, True
            anchored.values, anchored.characters = self._values - values, self._characters - characters
        return value

    def _scalar(self, event: Any) -> Any:
        self._charge(event, 1, len(event.value))
        if not event.implicit[0]:
            return event.value
        value = plain_scalar(event.value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refuse(event, f"{_short(event.value)} is not a JSON number; quote it if it is text")
        return value

    def _sequence(self, start: Any) -> list[Any]:
        self._charge(start, 1, 0)
        self._descend(start)
        items: list[Any] = []
        self._path.append(0)
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            self._path[-1] = len(items)
            items.append(self._value(event))
        self._path.pop()
        return items

    def _mapping(self, start: Any) -> dict[str, Any]:
        self._charge(start, 1, 0)
        self._descend(start)
        mapping = _Mapping()
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == _MERGE and not event.tag:
                self._first(mapping, _MERGE, event)
                self._merge(mapping.values, self._parser.get_event())
                continue
            key = self._key(event)
            self._first(mapping, key, event)
            self._path.append(key)
            mapping.values[key] = self._value(self._parser.get_event())
            self._path.pop()
        return mapping.values

    def _key(self, event: Any) -> str:
        """Read a key; integers and booleans become text as in Go (`on:` is the key `true`)."""
        value = self._value(event) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) else None
        match value:
            case str():
                return value
            case bool():
                return "true" if value else "false"
            case int() | float():
                return str(value)
            case _:
                raise self._refuse(event, "a key must be text")

    def _first(self, mapping: _Mapping, key: str, event: Any) -> None:
        line = event.start_mark.line + 1
        if before := mapping.lines.get(key):
            where = key_path([*self._path, key])
            raise ManifestUnreadable("DuplicateKey", f"{where}: duplicate key on line {line}; first on line {before}")
        mapping.lines[key] = line

    def _merge(self, into: dict[str, Any], event: Any) -> None:
        """Merge the keys of one mapping or several; of several the first takes precedence."""
        value = self._value(event)
        sources = value if isinstance(value, list) and not isinstance(event, yaml.AliasEvent) else [value]
        for source in reversed(sources):
            if not isinstance(source, dict):
                raise self._refuse(event, f"{_MERGE} takes a mapping or a list of mappings")
            into.update(source)

    def _alias(self, event: Any) -> Any:
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise self._refuse(event, f"unknown anchor {_short(event.anchor)}")
        if not anchored.complete:
            raise self._refuse(event, f"the anchor {_short(event.anchor)} contains itself")
        self._charge(event, anchored.values, anchored.characters)
        return anchored.value

    def _charge(self, event: Any, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
        if self._values > MOST_VALUES:
            raise ManifestUnreadable(
                "TooLarge", f"{_at(event)}: more than {MOST_VALUES} values, aliases counted as often as they are used"
            )
        if self._characters > MOST_CHARACTERS:
            raise ManifestUnreadable(
                "TooLarge", f"{_at(event)}: aliases repeat text to more than {MOST_CHARACTERS} characters"
            )

    def _descend(self, event: Any) -> None:
        if len(self._path) >= DEEPEST:
            raise ManifestUnreadable("TooDeep", f"{_at(event)}: nested deeper than {DEEPEST} levels")

    def _refuse(self, event: Any, why: str) -> ManifestUnreadable:
        where = f"{key_path(self._path)}: " if self._path else ""
        return ManifestUnreadable("InvalidYAML", f"{where}{_at(event)}: {why}")


def _at(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _one_line(error: yaml.YAMLError) -> str:
    """Format position and problem, without PyYAML's several lines."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        parts: Iterator[str] = (part for part in (error.context, error.problem) if part)
        return f"line {mark.line + 1}, column {mark.column + 1}: {', '.join(parts)}"
    return " ".join(str(error).split())
