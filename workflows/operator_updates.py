"""The Updates of PodWorkflow, one for each request that an operator can send.

`worker/commands/` sends them. A validator rejects an Update before it is recorded in the history. A handler queues the
request, answers what it will do, and awaits nothing, so that none is running at continue-as-new. `decide/` says what
may be asked and what it changes.
"""

from abc import ABC, abstractmethod

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.operator import (
    AddEphemeralContainer,
    BackoffsSkipped,
    ConditionSet,
    EphemeralContainerAdded,
    EvictPod,
    PodEvicted,
    PodStops,
    SetCondition,
    SkipBackoff,
    StopPod,
)
from workflows.decide.actions import Action
from workflows.decide.operator import ephemeral, evictions, operator_stops, skips
from workflows.decide.record import signals
from workflows.decide.record.fold import Answer
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation
from workflows.decide.status import gates
from workflows.loop import ArrivalLoop
from workflows.steps import Failed

Arrival = signals.Signal | tuple[Action, Answer | Failed]
"""What the loop waits for: a signal, an Update, or the answer of an action."""


def refuse(refusal: Refusal | None) -> None:
    """Reject an Update if there is a reason; raises ApplicationError."""
    if refusal:
        raise ApplicationError(refusal.message, type=refusal.reason, non_retryable=True)


class OperatorUpdates(ArrivalLoop[Arrival], ABC):
    """The Updates of a pod's workflow."""

    @abstractmethod
    def situation(self) -> Situation:
        """Return everything that a decision depends on."""

    @abstractmethod
    def record_all(self) -> None:
        """Record everything that has arrived in `Observed`, in order."""

    def queue_request(self, asked: signals.OperatorRequest) -> Situation:
        """Queue a request; returns the situation just before it."""
        self.record_all()
        self.arrived.append(asked)
        return self.situation()

    @workflow.update(name=names.SKIP_BACKOFF, description="end back-offs: restart or pull now")
    def skip_backoff(self, asked: SkipBackoff) -> BackoffsSkipped:
        """Answer which waits this ends."""
        return BackoffsSkipped(
            asked.operator, tuple(skips.waiting_backoffs(self.queue_request(asked), asked.container))
        )

    @skip_backoff.validator
    def refuse_to_skip(self, asked: SkipBackoff) -> None:
        """Reject a request that would end no wait."""
        refuse(skips.why_not(self.situation(), asked))

    @workflow.update(name=names.SET_CONDITION, description="set a condition that the node does not decide")
    def set_condition(self, asked: SetCondition) -> ConditionSet:
        """Answer the condition's status before the change."""
        before = gates.status_before(self.queue_request(asked), asked.type)
        return ConditionSet(asked.operator, asked.type, asked.status, before, asked.reason, asked.message)

    @set_condition.validator
    def refuse_condition(self, asked: SetCondition) -> None:
        """Reject a condition that the node owns, that is invalid, or that does not change."""
        refuse(gates.why_not(self.situation(), asked))

    @workflow.update(name=names.STOP_POD, description="shorten the grace period of a terminating pod")
    def stop_pod(self, asked: StopPod) -> PodStops:
        """Answer which grace period then holds."""
        return operator_stops.stops(self.queue_request(asked), asked)

    @stop_pod.validator
    def refuse_to_stop(self, asked: StopPod) -> None:
        """Reject the request while nothing is being stopped."""
        refuse(operator_stops.why_no_stop(self.situation(), asked))

    @workflow.update(name=names.EVICT_POD, description="evict the pod: it fails and is not started again")
    def evict_pod(self, asked: EvictPod) -> PodEvicted:
        """Answer how the pod ends; another eviction may have come since validation."""
        before = self.queue_request(asked)
        refuse(evictions.why_no_eviction(before, asked))
        return evictions.evicted(before, asked)

    @evict_pod.validator
    def refuse_to_evict(self, asked: EvictPod) -> None:
        """Reject system pods, and pods with nothing left to end."""
        refuse(evictions.why_no_eviction(self.situation(), asked))

    @workflow.update(name=names.ADD_EPHEMERAL_CONTAINER, description="start a container to look into the pod")
    def add_ephemeral_container(self, asked: AddEphemeralContainer) -> EphemeralContainerAdded:
        """Answer what is added; another container of that name may have come since validation."""
        before = self.queue_request(asked)
        refuse(ephemeral.why_not(before, asked))
        return ephemeral.added_answer(before, asked)

    @add_ephemeral_container.validator
    def refuse_to_add(self, asked: AddEphemeralContainer) -> None:
        """Reject what the API would reject, and what could not take effect."""
        refuse(ephemeral.why_not(self.situation(), asked))
