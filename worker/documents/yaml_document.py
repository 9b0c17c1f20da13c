"""Reads one YAML or JSON document of configuration without losing a key.

PyYAML silently takes the last of two equal keys, and turns dates into objects that JSON does not have. Here duplicates
are reported, and the values are those of JSON: the kubelet reads its configuration in the same way (YAML to JSON
first).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_LARGEST: Final = 1024 * 1024  # bytes; a configuration has a few kilobytes
_LARGEST_EXPANDED: Final = 100_000  # values, with aliases counted at each use
_DEEPEST: Final = 50
_TAG: Final = "tag:yaml.org,2002:"


class DocumentRefused(Exception):
    """A file that is not one readable document; the message names file, line and reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's content, and the paths of its duplicate keys (of which the last one counts)."""

    content: dict[str, Any]
    duplicates: tuple[str, ...] = ()


def read_document(path: Path) -> Document:
    """Read a file that holds one mapping; raises DocumentRefused."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise DocumentRefused(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _LARGEST:
        raise DocumentRefused(f"{path}: larger than {_LARGEST} bytes: is it a configuration?")
    if not data.strip():
        raise DocumentRefused(f"{path}: empty; apiVersion and kind are needed")
    return parse_document(data, str(path))


def parse_document(data: bytes, origin: str) -> Document:
    """Read one mapping from bytes; `origin` names them in messages."""
    try:
        _refuse_depth(data, origin)
        node = yaml.compose(data, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DocumentRefused(f"{origin}: not one YAML or JSON document: {_one_line(error)}") from error
    if not isinstance(node, yaml.MappingNode):
        raise DocumentRefused(f"{origin}: not a mapping of keys to values")
    reader = _Reader(origin)
    content = reader.mapping(node, "")
    return Document(content, tuple(reader.duplicates))


def _refuse_depth(data: bytes, origin: str) -> None:
    """Refuse deep nesting before the document is composed: libyaml's composer recurses until the process crashes."""
    depth = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        assert event.start_mark is not None  # libyaml always sets marks
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise DocumentRefused(f"{origin}: nested deeper than {_DEEPEST} levels (line {event.start_mark.line + 1})")


class _Reader:
    """Turns nodes into values, and counts them: one alias may expand to a million."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.duplicates: list[str] = []
        self._left = _LARGEST_EXPANDED
        self._construct = yaml.SafeLoader("")

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == f"{_TAG}merge":
                raise DocumentRefused(f"{self.origin}: {path or 'top'}: a key must be plain text ({_at(key_node)})")
            key = key_node.value
            where = f"{path}.{key}" if path else key
            if key in found:
                self.duplicates.append(where)
            found[key] = self.value(value_node, where)
        return found

    def value(self, node: yaml.Node, path: str) -> Any:
        self._left -= 1
        if self._left < 0:
            raise DocumentRefused(f"{self.origin}: expands to more than {_LARGEST_EXPANDED} values (aliases?)")
        match node:
            case yaml.MappingNode():
                return self.mapping(node, path)
            case yaml.SequenceNode():
                return [self.value(one, f"{path}[{index}]") for index, one in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node, path)
            case _:
                raise DocumentRefused(f"{self.origin}: {path}: unreadable ({_at(node)})")

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in {"bool", "int", "float", "null"}:
            try:
                return self._construct.construct_object(node)
            except (ValueError, KeyError, yaml.YAMLError) as error:
                raise DocumentRefused(f"{self.origin}: {path}: {node.value!r} is not a {kind} ({_at(node)})") from error
        if kind in {"str", "timestamp", "value"}:  # a date stays text
            return node.value
        raise DocumentRefused(f"{self.origin}: {path}: YAML tag {node.tag} is not allowed here ({_at(node)})")


def _at(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem or error.context} (line {error.problem_mark.line + 1})"
    return " ".join(str(error).split())
