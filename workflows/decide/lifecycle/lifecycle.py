"""The pod's three states and the events that move it between them, as one table."""

from enum import StrEnum
from typing import Final

from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from workflows.decide.containers.standing import pod_is_done
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.ending import deadline
from workflows.decide.keys import SANDBOX_KEY, container_key
from workflows.decide.lifecycle import admission
from workflows.decide.situation import Situation, look_for_starts
from workflows.decide.steps.sandbox import may_have_sandbox
from workflows.decide.steps.termination import prepare_termination


class Event(StrEnum):
    """What happens to a pod as a whole."""

    DELETION_REQUESTED = "DeletionRequested"
    POD_FINISHED = "PodFinished"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    EVICTED = "Evicted"
    REJECTED = "Rejected"
    LAST_CONTAINER_EXITED = "LastContainerExited"


TRANSITIONS: Final = {
    (Lifecycle.SYNC, Event.DELETION_REQUESTED): Lifecycle.TERMINATING,
    (Lifecycle.SYNC, Event.POD_FINISHED): Lifecycle.TERMINATING,
    (Lifecycle.SYNC, Event.DEADLINE_EXCEEDED): Lifecycle.TERMINATING,
    (Lifecycle.SYNC, Event.EVICTED): Lifecycle.TERMINATING,
    (Lifecycle.SYNC, Event.REJECTED): Lifecycle.TERMINATING,
    (Lifecycle.TERMINATING, Event.LAST_CONTAINER_EXITED): Lifecycle.TERMINATED,
}


def after(state: Lifecycle, event: Event) -> Lifecycle:
    """Return the state after an event; raises LookupError for a pair that the table does not have."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LookupError(f"a pod in state {state} knows no {event}") from None


def happened(situation: Situation, event: Event) -> None:
    """Record an event."""
    observed = situation.observed
    observed.lifecycle = after(observed.lifecycle, event)
    observed.waiting_for = ""
    if event is Event.POD_FINISHED:
        observed.finished_at = situation.now
        # a sidecar or ephemeral container whose start failed may still live: find it before stopping it
        if any(container_key(name) in observed.failures for name in situation.companions):
            look_for_starts(observed)
    if event is Event.REJECTED and (why := admission.rejection(situation)):
        admission.reject(observed, why, situation.now)
    if event is Event.DEADLINE_EXCEEDED:
        prepare_termination(observed)
        observed.eviction = Eviction(situation.now, deadline.REASON, deadline.MESSAGE)


def next_event(situation: Situation) -> Event | None:
    """Return what has happened to the pod, if anything."""
    observed = situation.observed
    match observed.lifecycle:
        case Lifecycle.SYNC if observed.deletion:
            return Event.DELETION_REQUESTED
        case Lifecycle.SYNC if observed.eviction:
            return Event.EVICTED
        case Lifecycle.SYNC if observed.ended:
            return Event.POD_FINISHED
        case Lifecycle.SYNC if admission.rejection(situation):
            return Event.REJECTED
        case Lifecycle.SYNC if pod_finished(situation):
            return Event.POD_FINISHED
        case Lifecycle.SYNC if deadline.deadline_exceeded(situation):
            return Event.DEADLINE_EXCEEDED
        case Lifecycle.TERMINATING if stopped(situation):
            return Event.LAST_CONTAINER_EXITED
        case _:
            return None


def pod_finished(situation: Situation) -> bool:
    """Report whether only sidecars and ephemeral containers will run again (pkg/kubelet/kubelet.go SyncPod, isTerminal)."""
    if situation.is_busy("container/", SANDBOX_KEY) or not situation.companions.issuperset(live_containers(situation)):
        return False
    if pod_is_done(situation):
        return True
    return bool(situation.observed.sandbox) and not situation.sandbox_id and not may_have_sandbox(situation)


def stopped(situation: Situation) -> bool:
    """Report whether no container runs or is about to, the network is released, and no re-read is due."""
    sandbox = situation.observed.sandbox
    return (
        not situation.observed.runtime_stale
        and not situation.is_busy("container/", SANDBOX_KEY)
        and not live_containers(situation)
        and (sandbox is None or sandbox.stopped)
    )
