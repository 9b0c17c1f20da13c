"""What a line of the tables in `supported` says of a field: its kind, what lies inside, and what of it is acted upon."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    """What JSON a field takes; the value is how a message names it."""

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
    """Whether this version acts on a field."""

    RUNS = "runs"
    SOME_VALUES = "some values"
    NOT_YET = "not yet"


Fields = Mapping[str, "Field"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its kind, what lies inside, and which values are acted upon."""

    kind: Kind
    support: Support
    inside: Fields | None = None
    only: tuple[Any, ...] = ()
    """The values taken, of a field with `SOME_VALUES`."""
    instead: str = ""
    """Of a field that will never be run: why, and what does the same."""
    never: tuple[str, ...] = ()
    """Values (of a mapping: its keys) that Kubernetes knows and this version does not act upon; `*` stands for any."""


def runs(kind: Kind, inside: Fields | None = None, never: tuple[str, ...] = ()) -> Field:
    """Take the field as Kubernetes does, but for `never`."""
    return Field(kind, Support.RUNS, inside, never=never)


def only(kind: Kind, *values: Any) -> Field:
    """Take these values, each of which is what Kubernetes does anyway."""
    return Field(kind, Support.SOME_VALUES, only=values)


def only_empty(kind: Kind) -> Field:
    """Take an empty list, mapping or string, which asks for nothing."""
    return only(kind, [], {}, "")


def not_yet(kind: Kind) -> Field:
    """Refuse the field, whatever it says."""
    return Field(kind, Support.NOT_YET)


def refused(kind: Kind, instead: str) -> Field:
    """Refuse the field for good; `instead` says why, and what does the same."""
    return Field(kind, Support.NOT_YET, instead=instead)


ON: Final = True
OFF: Final = False
