"""A failed runtime call and what the caller may do about it, from one table of gRPC status codes.

Raised by the clients. Apart from `activities/execution/errors.py`, because the node process does not import Temporal.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import grpc

from proto.messages import shorten


class Remedy(StrEnum):
    """What the caller of a runtime call may do now."""

    RETRY = "the runtime is unavailable: repeat the call"
    GONE = "the object does not exist: what was to be removed is removed"
    ADOPT = "its name is taken by an earlier try: adopt that one, or take the next attempt"
    WAIT = "the runtime is overloaded: repeat the call later"
    TIMED_OUT = "the outcome is unknown: find it out before repeating the call"
    PERMANENT = "the runtime refuses: another request is needed"


_REMEDIES: Final = {
    grpc.StatusCode.UNAVAILABLE: Remedy.RETRY,
    grpc.StatusCode.NOT_FOUND: Remedy.GONE,
    grpc.StatusCode.ALREADY_EXISTS: Remedy.ADOPT,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Remedy.WAIT,
    grpc.StatusCode.DEADLINE_EXCEEDED: Remedy.TIMED_OUT,
    grpc.StatusCode.CANCELLED: Remedy.TIMED_OUT,
    grpc.StatusCode.ABORTED: Remedy.WAIT,
}
_NAME_RESERVED: Final = re.compile(r'name "[^"]+" is reserved for "')
"""containerd answers UNKNOWN for it, CRI-O has other words; only the text shows it (containerd#4604)."""

_LOST_TASK: Final = re.compile(r"cannot delete running task ([0-9a-f]{64})\b")
"""containerd's words about a container without a running process that it knows of."""


class CriError(Exception):
    """A failed runtime call: which call, what the runtime said, and what may be done."""

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        self.call = call
        self.code = code
        self.details = shorten(details)
        self.remedy = remedy_for(code, details)
        self.lost_task = lost_task(details)
        """The container whose task the runtime has lost, and which it does not remove for that; or empty."""
        super().__init__(f"{call}: {self.details}")

    @classmethod
    def joined(cls, errors: "Sequence[CriError]") -> "CriError":
        """Combine the errors of several tries of one call, each text once.

        If all have the same text, return the first.
        """
        texts = list(dict.fromkeys(one.details for one in errors))
        if len(texts) == 1:
            return errors[0]
        return cls(errors[0].call, grpc.StatusCode.UNKNOWN, f"[{', '.join(texts)}]")


def lost_task(details: str) -> str:
    """Read the id of a container whose task the runtime has lost."""
    found = _LOST_TASK.search(details)
    return found.group(1) if found else ""


def remedy_for(code: grpc.StatusCode, details: str) -> Remedy:
    """Look up what a gRPC status means for the caller; a reserved name shows only in the text."""
    if _NAME_RESERVED.search(details):
        return Remedy.ADOPT
    return _REMEDIES.get(code, Remedy.PERMANENT)
