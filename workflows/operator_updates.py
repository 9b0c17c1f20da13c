"""The Updates of PodWorkflow, one for each request that an operator can send.

`worker/commands/` sends them. The validator rejects an Update before it is recorded in the history. The handler queues
the request, answers what it will do, and awaits nothing, so that none is running at continue-as-new. `decide/` says what
may be asked and what it changes. Both take raw values, so that a malformed request is refused like any other.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.operator import (
    AddEphemeralContainer,
    BackoffsSkipped,
    ConditionSet,
    EvictPod,
    OperatorRequest,
    Rejection,
    SetCondition,
    SkipBackoff,
    StopPod,
)
from workflows.decide.actions import Action
from workflows.decide.operator import ephemeral, evictions, operator_stops, skips
from workflows.decide.record import signals
from workflows.decide.record.fold import Answer
from workflows.decide.record.numbers import already_taken
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation
from workflows.decide.status import gates
from workflows.loop import ArrivalLoop
from workflows.received import MessageRefused, read, shortened
from workflows.steps import Failed

Arrival = signals.Signal | tuple[Action, Answer | Failed]
"""What the loop waits for: a signal, an Update, or the answer of an action."""


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


def refuse(refusal: Refusal | None) -> None:
    """Reject an Update if there is a reason; raises ApplicationError."""
    if refusal:
        raise ApplicationError(refusal.message, type=refusal.reason, non_retryable=True)


class OperatorUpdates(ArrivalLoop[Arrival]):
    """The Updates of a pod's workflow."""

    def __init__(self) -> None:
        super().__init__()
        self.refused_requests = 0
        """Malformed Updates since the worker has loaded this run; the history has none of them."""

    @abstractmethod
    def situation(self) -> Situation:
        """Return everything that a decision depends on."""

    @abstractmethod
    def record_all(self) -> None:
        """Record everything that has arrived in `Observed`, in order."""

    def queue_request(self, asked: OperatorRequest) -> Situation:
        """Queue a request; returns the situation just before it."""
        self.record_all()
        self.arrived.append(asked)
        return self.situation()

    @workflow.update(dynamic=True)
    def requested(self, name: str, values: Sequence[RawValue]) -> Any:
        """Queue a request and answer what it will do; it may have become impossible since its validation."""
        request = REQUESTS[name]
        asked = read(values, request.shape)
        before = self.queue_request(asked)
        refuse(already_taken(before, asked))
        if request.checked_again:
            refuse(request.why_not(before, asked))
        return request.answer(before, asked)

    @requested.validator
    def refuse_request(self, name: str, values: Sequence[RawValue]) -> None:
        """Reject a malformed request, and one that is not possible, before the history stores it."""
        try:
            refusal = self.refusal(name, values)
        except MessageRefused as refused:
            self.refused_requests += 1
            why = f"the request {shortened(name)} is refused: {refused}; use the commands of tempolet"
            raise ApplicationError(why, type="Malformed", non_retryable=True) from None
        refuse(refusal)

    @workflow.query(name=names.WHY_NOT, description="why an Update would be rejected")
    def why_not(self, name: str, value: RawValue) -> Rejection | None:
        """Return why an Update would be rejected; None if it would be accepted. Asking leaves nothing in the history."""
        refusal = self.refusal(name, [value])
        return Rejection(refusal.reason, refusal.message) if refusal else None

    def refusal(self, name: str, values: Sequence[RawValue]) -> Refusal | None:
        """Return why a request is not possible now; raises MessageRefused for a malformed one."""
        request = REQUESTS.get(name)
        asked = read(values, request.shape if request else None)
        assert request is not None
        return already_taken(self.situation(), asked) or request.why_not(self.situation(), asked)
