"""What a row of the tables in `supported` says of a field: its kind, the fields inside, and how far it is supported."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    """The JSON type of a field; the value is its name in messages."""

    STRING = "a string"
    BOOLEAN = "a boolean"
    INT32 = "a 32-bit integer"
    INT64 = "a 64-bit integer"
    INT_OR_STRING = "a 32-bit integer or a string"
    TIME = "a time"
    STRINGS = "a list of strings"
    INT32S = "a list of 32-bit integers"
    INT64S = "a list of 64-bit integers"
    STRING_MAP = "a mapping of strings"
    QUANTITY = "a quantity"
    QUANTITY_MAP = "a mapping of quantities"
    OBJECT = "an object"
    OBJECTS = "a list of objects"


class Support(StrEnum):
    """Whether this version supports a field."""

    RUNS = "runs"
    SOME_VALUES = "some values"
    NOT_YET = "not yet"


Fields = Mapping[str, "Field"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its kind, the fields inside, and the supported values."""

    kind: Kind
    support: Support
    inside: Fields | None = None
    only: tuple[Any, ...] = ()
    """The accepted values of a field with `SOME_VALUES`."""
    instead: str = ""
    """For a field that will never be supported: why, and the alternative."""
    never: tuple[str, ...] = ()
    """Values (keys of a mapping) that Kubernetes knows and this version does not support; `*` means any."""


def runs(kind: Kind, inside: Fields | None = None, never: tuple[str, ...] = ()) -> Field:
    """Support the field as Kubernetes does, except for `never`."""
    return Field(kind, Support.RUNS, inside, never=never)


def only(kind: Kind, *values: Any) -> Field:
    """Accept these values, which are what Kubernetes does by default."""
    return Field(kind, Support.SOME_VALUES, only=values)


def only_empty(kind: Kind, instead: str = "") -> Field:
    """Accept an empty list, mapping or string, which asks for nothing; `instead` is as in `refused`."""
    return Field(kind, Support.SOME_VALUES, only=([], {}, ""), instead=instead)


def not_yet(kind: Kind) -> Field:
    """Reject the field, whatever its value."""
    return Field(kind, Support.NOT_YET)


def refused(kind: Kind, instead: str) -> Field:
    """Reject the field for good; `instead` says why, and the alternative."""
    return Field(kind, Support.NOT_YET, instead=instead)


NEEDS_API: Final = "a static pod has no source for it; a pod of the API server has one"
"""Why a field is refused in a manifest that a pod of the API may have."""
ON: Final = True
OFF: Final = False
