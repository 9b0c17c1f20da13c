"""Reads JSON manifests with limits that Python's own reader lacks.

Called by `manifest_document` for a file that starts with a brace, which Kubernetes reads as JSON and never as YAML
(k8s.io/apimachinery pkg/util/yaml). Stricter than Kubernetes: duplicate keys are refused, of which the last would
otherwise count silently.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from worker.documents.manifest_refusal import MOST_VALUES, ManifestUnreadable
from workflows.decide.manifest.fields.field_errors import key_path

_LONGEST_NUMBER: Final = 400  # characters; no finite number is longer


def read_json(text: str) -> Any:
    """Read one JSON document; raises ManifestUnreadable, which names line or field."""
    if sum(text.count(sign) for sign in ",[{") > MOST_VALUES:
        raise ManifestUnreadable("TooLarge", f"more than {MOST_VALUES} commas and brackets")
    duplicates: list[tuple[dict[str, Any], str]] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            duplicates.append((found, _first_double(key for key, _ in pairs)))
        return found

    try:
        document = json.loads(
            text, object_pairs_hook=mapping, parse_float=_float, parse_int=_integer, parse_constant=_no_constant
        )
        if duplicates:
            raise ManifestUnreadable("DuplicateKey", f"{_where(duplicates[0], document)}: duplicate key")
        return document
    except json.JSONDecodeError as error:
        hint = " (a file that begins with { is read as JSON)" if error.lineno == 1 else ""
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ManifestUnreadable("InvalidJSON", f"line {error.lineno}, column {error.colno}: {what}{hint}") from error
    except RecursionError as error:
        raise ManifestUnreadable("TooDeep", "nested too deep") from error


def _where(double: tuple[dict[str, Any], str], document: Any) -> str:
    holder, key = double
    return key_path([*(_path_to(holder, document) or ()), key])


def _first_double(keys: Iterable[str]) -> str:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    raise ValueError("no duplicate key")


def _path_to(sought: dict[str, Any], inside: Any) -> list[str | int] | None:
    """Find the path of a mapping; None if a duplicate key above it has dropped it."""
    if inside is sought:
        return []
    match inside:
        case dict():
            steps: Any = inside.items()
        case list():
            steps = enumerate(inside)
        case _:
            return None
    for step, value in steps:
        if (rest := _path_to(sought, value)) is not None:
            return [step, *rest]
    return None


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _no_constant(text if len(text) <= _LONGEST_NUMBER else f"{text[:20]}…")
    return number


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        _no_constant(f"{text[:20]}…")
    return int(text)


def _no_constant(text: str) -> NoReturn:
    raise ManifestUnreadable("InvalidJSON", f"{text} is not a number that Kubernetes supports")
