"""The requests that an operator can send to a pod: the type of each, why it is rejected, and what it is answered.

`worker/commands/` sends them as Updates. `decide/` says what may be asked and what it changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.temporal import names
from proto.temporal.operator import (
    AddEphemeralContainer,
    BackoffsSkipped,
    ConditionSet,
    EvictPod,
    SetCondition,
    SkipBackoff,
    StopPod,
)
from workflows.decide.operator import ephemeral, evictions, operator_stops, skips
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation
from workflows.decide.status import gates


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of request: its type, why it is rejected, and what it is answered."""

    shape: type
    why_not: Callable[[Situation, Any], Refusal | None]
    answer: Callable[[Situation, Any], Any]
    checked_again: bool = False
    """Another request of its kind may have come since its validation."""


def backoffs_skipped(before: Situation, asked: SkipBackoff) -> BackoffsSkipped:
    """Answer which waits this ends."""
    return BackoffsSkipped(asked.operator, tuple(skips.waiting_backoffs(before, asked.container)))


def condition_set(before: Situation, asked: SetCondition) -> ConditionSet:
    """Answer the condition's status before the change."""
    status = gates.status_before(before, asked.type)
    return ConditionSet(asked.operator, asked.type, asked.status, status, asked.reason, asked.message)


REQUESTS: Final[Mapping[str, Request]] = {
    names.SKIP_BACKOFF: Request(SkipBackoff, skips.why_not, backoffs_skipped),
    names.SET_CONDITION: Request(SetCondition, gates.why_not, condition_set),
    names.STOP_POD: Request(StopPod, operator_stops.why_no_stop, operator_stops.stops),
    names.EVICT_POD: Request(EvictPod, evictions.why_no_eviction, evictions.evicted, checked_again=True),
    names.ADD_EPHEMERAL_CONTAINER: Request(
        AddEphemeralContainer, ephemeral.why_not, ephemeral.added_answer, checked_again=True
    ),
}
