"""A JSON object that is read from a file that anybody may have damaged; a refusal is in plain words, for an operator."""

import json
from collections.abc import Mapping
from typing import Any, Final

WRONG_FIELD: Final = "a field of it is missing or of a wrong kind"
UNREADABLE: Final = "not JSON that can be read: a number is too long, or too many lists are in each other"


class NoJsonObject(ValueError):
    """A text is no JSON object."""


def read_object(text: str) -> Mapping[str, Any]:
    """Read it; raises NoJsonObject."""
    if not text.strip():
        raise NoJsonObject("not JSON: it is empty")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise NoJsonObject(f"not JSON: wrong at line {error.lineno}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise NoJsonObject(UNREADABLE) from error
    if not isinstance(found, dict):
        raise NoJsonObject("not a JSON object")
    return found
