"""Reads the messages that a workflow receives; what tempolet has not written is refused, and never raises in the SDK.

Whoever reaches Temporal may send a signal or an Update: without a value, with several, not encrypted, or of another type.
The SDK fails the workflow task for some of these, at every retry, so the handlers take raw values and convert them here.
The reasons are fixed texts: they are the same in each replay, and in a replay of a decrypted history.
"""

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue

from proto.temporal.dropped import MARK, REFUSED
from proto.temporal.names import ACTIVITY, SHAPE

LONGEST_NAME: Final = 60
"""Characters of a message's name that are repeated."""
NOT_OURS: Final = "it was not encrypted for this workflow by tempolet"


class MessageRefused(Exception):
    """A message, or an activity's answer, that tempolet has not written."""


def read(values: Sequence[RawValue], shape: type | None) -> Any:
    """Convert the one value of a message; raises MessageRefused. `shape` is None for a message of an unknown name."""
    if shape is None:
        raise MessageRefused("it has an unknown name")
    if len(values) != 1:
        raise MessageRefused("it has no value" if not values else "it has more than one value")
    return converted(values[0], shape)


def converted(value: RawValue, shape: Any, *, activity_id: str = "", named: bool = False) -> Any:
    """Convert a value; raises MessageRefused.

    The codec has refused the value of another activity, but a history that was decrypted elsewhere still has it. With `named`, a
    value is refused, too, that does not name its activity and its dataclass.
    """
    metadata = value.payload.metadata
    is_foreign = metadata.get(ACTIVITY, activity_id.encode()) != activity_id.encode()
    if metadata.get("encoding") == REFUSED.encode() or MARK in metadata or is_foreign:
        raise MessageRefused(NOT_OURS)
    if named and not (ACTIVITY in metadata and (SHAPE in metadata or not is_dataclass(shape))):
        raise MessageRefused("it does not name its activity and its type")
    try:
        return workflow.payload_converter().from_payload(value.payload, shape)
    except Exception as error:
        raise MessageRefused("its value is of another type") from error


def shortened(name: str) -> str:
    """Shorten a name that a stranger may have chosen."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
