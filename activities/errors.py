"""What went wrong, sorted by what the caller may do about it.

The clients raise `CriError` with a `Remedy`, found in one table from gRPC's status; activities turn it into a
Temporal ApplicationError whose type is the Kubernetes reason. Only `RuntimeUnavailable` is left to Temporal's retries:
containerd is away and nothing was decided. Everything else is the workflow's to judge, so it is non-retryable.
"""

import re
from enum import StrEnum
from typing import Final

import grpc
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from proto.temporal.messages import shorten

RUNTIME_UNAVAILABLE: Final = "RuntimeUnavailable"
PREDECESSOR_PRESENT: Final = "PredecessorPresent"
UNEXPECTED: Final = "UnexpectedError"
"""A defect of ours (`unexpected.py`)."""


class Remedy(StrEnum):
    """What the caller of a runtime call may do now."""

    RETRY = "the runtime is away: ask again"
    GONE = "the object does not exist: what was to be removed is removed"
    ADOPT = "its name is taken by an earlier try: adopt that one, or take the next attempt"
    WAIT = "the runtime is overloaded: ask later"
    TIMED_OUT = "nobody knows whether it happened: look before asking again"
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
"""containerd answers UNKNOWN for it, and CRI-O its own words; the text is all there is (containerd#4604)."""


class CriError(Exception):
    """A runtime call that did not succeed: which call, what it said, and what may be done."""

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        self.call = call
        self.code = code
        self.details = shorten(details)
        self.remedy = remedy_for(code, details)
        super().__init__(f"{call}: {self.details}")


def remedy_for(code: grpc.StatusCode, details: str) -> Remedy:
    """Look up what a gRPC status means for the caller; a reserved name is known by its text alone."""
    if _NAME_RESERVED.search(details):
        return Remedy.ADOPT
    return _REMEDIES.get(code, Remedy.PERMANENT)


def failed(reason: str, message: str) -> ApplicationError:
    """Build the error that the workflow judges by its Kubernetes reason; Temporal does not retry it."""
    return ApplicationError(shorten(message), type=reason, non_retryable=True)


def unavailable(error: CriError, endpoint: str) -> ApplicationError:
    """Build the one error that Temporal retries: nobody answers at the runtime's endpoint.

    Benign to the SDK, which would else log it for each pod every five seconds; the poller says it once.
    """
    message = (
        f"no container runtime answers at {endpoint} ({error.details}); pods keep their state, work resumes by itself: "
        f"start containerd, or set --container-runtime-endpoint to its socket"
    )
    return ApplicationError(shorten(message), type=RUNTIME_UNAVAILABLE, category=ApplicationErrorCategory.BENIGN)


def translated(error: CriError, endpoint: str, reason: str, doing: str) -> ApplicationError:
    """Turn a runtime's refusal into what the workflow is told: `doing` says what and which one."""
    if error.remedy is Remedy.RETRY:
        return unavailable(error, endpoint)
    return failed(reason, f"{doing}: {error.details}")
