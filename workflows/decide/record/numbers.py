"""Which messages are left out because of their numbers: those that came before, and those that a newer one has overtaken.

A message may come twice: its sender had no answer and sent it again, or sent it to the workflow and to the worker that led the
pod meanwhile. Messages of releases that did not recognize that have no `sender` and are treated as these releases did.
"""

from typing import Final

from proto.temporal.operator import OperatorRequest
from proto.temporal.pod import Observed
from proto.temporal.signals import (
    DeletionRequested,
    ObjectsChanged,
    PodListed,
    RuntimeChanged,
    StatusGiven,
    StorageExceeded,
)
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation

MOST_REQUESTS: Final = 32
"""Numbers of Updates that are remembered; an older one would be judged by what it asks for, as a new one is."""


def is_late(observed: Observed, signal: PodListed | DeletionRequested | StatusGiven) -> bool:
    """Report whether the source has already sent this signal or a newer one; without a sequence (0) a signal never is."""
    if not signal.sequence:
        return False
    newest = _heard(observed, signal.source, signal.sequence)
    return signal.sequence < newest or (signal.sequence == newest and bool(signal.sender))


def is_duplicate(observed: Observed, hint: RuntimeChanged | ObjectsChanged | StorageExceeded) -> bool:
    """Report whether this hint was the newest of its kind already.

    An older hint is followed: it only asks to look, and numbers of the worker may start below its last ones.
    """
    if not hint.sequence or not hint.sender:
        return False
    kind = "runtime" if isinstance(hint, RuntimeChanged) else hint.source
    return _heard(observed, f"{hint.sender} {kind}", hint.sequence) == hint.sequence


def already_taken(situation: Situation, asked: OperatorRequest) -> Refusal | None:
    """Return why an Update is refused that has come before: Duplicate."""
    if not asked.sequence or asked.sequence not in situation.observed.requests:
        return None
    return Refusal("Duplicate", f"{situation.key} has taken this request already")


def is_taken_again(observed: Observed, asked: OperatorRequest) -> bool:
    """Record an Update; returns whether it was recorded before."""
    if not asked.sequence:
        return False
    if asked.sequence in observed.requests:
        return True
    observed.requests = (*observed.requests, asked.sequence)[-MOST_REQUESTS:]
    return False


def _heard(observed: Observed, sender: str, sequence: int) -> int:
    """Record a number; returns the highest one before it."""
    newest = observed.heard.get(sender, 0)
    observed.heard[sender] = max(newest, sequence)
    return newest
