"""Payload converters that write the type of a value beside it, and refuse a payload that names another type.

Both kinds of our clients use them (`receiving`, `sending`). The name is in the metadata of the payload that the codec encrypts, so
nobody without the key can change it: the encrypted request of one activity does not open as that of another one, whatever fields
they share. A payload without a name was written by an earlier release, or has no dataclass.
"""

import types
from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.converter import CompositePayloadConverter

from proto.temporal.names import SHAPE
from worker.payloads.refused import PayloadRefused

_UNIONS: Final = (Union, types.UnionType)


class ShapeConverter(CompositePayloadConverter):
    """Names the dataclass of each value, and compares the name with the type that is asked for."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Convert values, each with the name of its type."""
        payloads = super().to_payloads(values)
        for value, payload in zip(values, payloads, strict=True):
            if is_dataclass(value) and not isinstance(value, RawValue):
                payload.metadata[SHAPE] = type(value).__name__.encode()
        return payloads

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Convert payloads; raises PayloadRefused for one that names another type than its hint."""
        for payload, hint in zip(payloads, type_hints or (), strict=False):
            named = payload.metadata.get(SHAPE, b"").decode(errors="replace")
            expected = _names(hint) if named and hint is not RawValue else None
            if expected is not None and named not in expected:
                raise PayloadRefused(f"a value of type {named} is not a {' or '.join(sorted(expected))}")
        return super().from_payloads(payloads, type_hints)


@cache
def _names(hint: Any) -> frozenset[str] | None:
    """Return the names of the dataclasses that a type admits; None if it admits others, too."""
    if get_origin(hint) in _UNIONS:
        each = [_names(one) for one in get_args(hint) if one is not types.NoneType]
        known = [one for one in each if one is not None]
        return frozenset[str]().union(*known) if len(known) == len(each) else None
    return frozenset({hint.__name__}) if isinstance(hint, type) and is_dataclass(hint) else None
