"""What an operator may ask a pod's workflow and is answered: one Update each, all heard in the same way.

The part of PodWorkflow that `worker/commands/` speaks to. A validator refuses before history knows of it; a handler files what
was asked, answers what that will do, and awaits nothing, so that none is under way when a run is continued as new. What may be
asked, and what it changes, is decided in `decide/`.
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
"""What the loop waits for: something was said, or an action has come back."""


def refuse(refusal: Refusal | None) -> None:
    """Refuse an Update, if there is a reason; raises ApplicationError."""
    if refusal:
        raise ApplicationError(refusal.message, type=refusal.reason, non_retryable=True)


class OperatorUpdates(ArrivalLoop[Arrival], ABC):
    """The Updates of a pod's workflow."""

    @abstractmethod
    def situation(self) -> Situation:
        """Gather what a decision may look at."""

    @abstractmethod
    def write_down_all(self) -> None:
        """Bring all that has arrived into `Observed`, in its order."""

    def file(self, asked: signals.OperatorRequest) -> Situation:
        """File what was asked; gives what is known right before it."""
        self.write_down_all()
        self.arrived.append(asked)
        return self.situation()

    @workflow.update(name=names.SKIP_BACKOFF, description="restart or pull now what waits in a back-off")
    def skip_backoff(self, asked: SkipBackoff) -> BackoffsSkipped:
        """Say what that skips."""
        return BackoffsSkipped(asked.operator, tuple(skips.waiting_backoffs(self.file(asked), asked.container)))

    @skip_backoff.validator
    def refuse_to_skip(self, asked: SkipBackoff) -> None:
        """Refuse what would skip nothing."""
        refuse(skips.why_not(self.situation(), asked))

    @workflow.update(name=names.SET_CONDITION, description="let the pod have a condition that others judge")
    def set_condition(self, asked: SetCondition) -> ConditionSet:
        """Say what it was before."""
        before = gates.status_before(self.file(asked), asked.type)
        return ConditionSet(asked.operator, asked.type, asked.status, before, asked.reason, asked.message)

    @set_condition.validator
    def refuse_condition(self, asked: SetCondition) -> None:
        """Refuse what is the node's own, no condition, or no change."""
        refuse(gates.why_not(self.situation(), asked))

    @workflow.update(name=names.STOP_POD, description="let a pod that is going be down sooner")
    def stop_pod(self, asked: StopPod) -> PodStops:
        """Say which grace holds then."""
        return operator_stops.stops(self.file(asked), asked)

    @stop_pod.validator
    def refuse_to_stop(self, asked: StopPod) -> None:
        """Refuse where nothing is being stopped."""
        refuse(operator_stops.why_no_stop(self.situation(), asked))

    @workflow.update(name=names.EVICT_POD, description="end the pod for the node's sake: it has failed")
    def evict_pod(self, asked: EvictPod) -> PodEvicted:
        """Say how it ends; what has come since it was let in may have ended it (another eviction)."""
        before = self.file(asked)
        refuse(evictions.why_no_eviction(before, asked))
        return evictions.evicted(before, asked)

    @evict_pod.validator
    def refuse_to_evict(self, asked: EvictPod) -> None:
        """Refuse for a pod of the system, and where nothing is left to end."""
        refuse(evictions.why_no_eviction(self.situation(), asked))

    @workflow.update(name=names.ADD_EPHEMERAL_CONTAINER, description="start a container to look into the pod")
    def add_ephemeral_container(self, asked: AddEphemeralContainer) -> EphemeralContainerAdded:
        """Say what is added; what has come since it was let in may have made it impossible (another one of this name)."""
        before = self.file(asked)
        refuse(ephemeral.why_not(before, asked))
        return ephemeral.added_answer(before, asked)

    @add_ephemeral_container.validator
    def refuse_to_add(self, asked: AddEphemeralContainer) -> None:
        """Refuse what the API would, and what nothing would come of."""
        refuse(ephemeral.why_not(self.situation(), asked))
