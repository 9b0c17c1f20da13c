"""How a signal or an operator's request changes `Observed`.

Signals are hints and requests: they are recorded, and the decision follows from what is recorded. So signals may be
repeated, late or out of order. `numbers.py` says which ones are left out.
"""

from dataclasses import replace
from typing import Final

from proto.temporal import names
from proto.temporal.activities.requests import RunPodSandbox, StopContainer, StopPodSandbox
from proto.temporal.operator import (
    AddEphemeralContainer,
    EvictPod,
    OperatorRequest,
    SetCondition,
    SkipBackoff,
    StopPod,
)
from proto.temporal.pod import Lifecycle, Observed, PodJson
from proto.temporal.pod_inputs import Deletion
from proto.temporal.signals import (
    REBOOT,
    DeletionRequested,
    ObjectsChanged,
    PodListed,
    ProbeVerdict,
    RuntimeChanged,
    StatusGiven,
    StorageExceeded,
)
from workflows.decide.containers.backoff import forget_backoffs
from workflows.decide.containers.definitions import is_being_stopped, redefine
from workflows.decide.ending.grace import Grace, deletion_grace, pod_grace
from workflows.decide.eviction.local_storage import storage_exceeded
from workflows.decide.keys import SANDBOX_KEY
from workflows.decide.manifest.hook_terms import without_new_hooks
from workflows.decide.operator import ephemeral
from workflows.decide.operator.evictions import evict
from workflows.decide.operator.operator_stops import shorten_grace
from workflows.decide.operator.skips import skip
from workflows.decide.record.first_sight import has_ended
from workflows.decide.record.listing import lasting, without_ephemeral
from workflows.decide.record.numbers import is_duplicate, is_late, is_taken_again
from workflows.decide.record.updates import Outcome, changes, judge, needs_another_pod, taken_over
from workflows.decide.resources.allocation import allocate
from workflows.decide.situation import Situation
from workflows.decide.status.gates import set_condition
from workflows.decide.steps.probes import verdict_reached
from workflows.decide.steps.resize import restarting
from workflows.decide.steps.termination import prepare_termination
from workflows.decide.versions import HOOKS_AS_FIRST_TAKEN, REBOOT_ENDS_BACKOFFS
from workflows.decide.volumes.refresh import objects_changed

Signal = (
    PodListed
    | DeletionRequested
    | RuntimeChanged
    | ProbeVerdict
    | ObjectsChanged
    | StorageExceeded
    | StatusGiven
    | OperatorRequest
)

SHAPES: Final[dict[str, type]] = {
    names.POD_LISTED: PodListed,
    names.DELETION_REQUESTED: DeletionRequested,
    names.RUNTIME_CHANGED: RuntimeChanged,
    names.PROBE_VERDICT: ProbeVerdict,
    names.OBJECTS_CHANGED: ObjectsChanged,
    names.STORAGE_EXCEEDED: StorageExceeded,
    names.STATUS_GIVEN: StatusGiven,
}
"""The type of each signal's value, by the signal's name."""


def apply_signal(situation: Situation, signal: Signal) -> PodJson | None:
    """Record what a signal says; returns the edited pod if the signal changes it, else None."""
    situation.observed.signals += 1
    match signal:
        case PodListed() | DeletionRequested() | StatusGiven():
            return None if is_late(situation.observed, signal) else apply_source_signal(situation, signal)
        case RuntimeChanged() | ObjectsChanged() | StorageExceeded():
            if not is_duplicate(situation.observed, signal):
                apply_node_signal(situation, signal)
        case ProbeVerdict():
            apply_node_signal(situation, signal)
        case _:
            return None if is_taken_again(situation.observed, signal) else apply_request(situation, signal)
    return None


def apply_source_signal(situation: Situation, signal: PodListed | DeletionRequested | StatusGiven) -> PodJson | None:
    """Record what the pod's source says; returns the edited pod or None."""
    match signal:
        case PodListed():
            return apply_listing(situation, signal)
        case DeletionRequested():
            situation.observed.listed_again = False
            request_deletion(situation, signal)
        case StatusGiven():
            status_given(situation, signal)
    return None


def apply_node_signal(
    situation: Situation, signal: RuntimeChanged | ProbeVerdict | ObjectsChanged | StorageExceeded
) -> None:
    """Record what was seen on the node."""
    match signal:
        case ProbeVerdict():
            verdict_reached(situation, signal)
        case ObjectsChanged():
            objects_changed(situation, signal)
        case StorageExceeded():
            storage_exceeded(situation, signal)
        case RuntimeChanged():
            runtime_changed(situation, signal)


def runtime_changed(situation: Situation, signal: RuntimeChanged) -> None:
    """Record that the runtime has to be re-read, and that a restart of the machine ends every back-off."""
    if signal.source == REBOOT and situation.behaviour >= REBOOT_ENDS_BACKOFFS:
        forget_backoffs(situation.observed)
    if is_news(situation, signal):
        situation.observed.runtime_stale = True
        situation.observed.runtime_stale_again = situation.is_busy("runtime")


def apply_request(situation: Situation, asked: OperatorRequest) -> PodJson | None:
    """Record an operator's request; returns the edited pod or None."""
    match asked:
        case SkipBackoff():
            skip(situation, asked)
        case SetCondition():
            set_condition(situation, asked)
        case StopPod():
            shorten_grace(situation, asked)
        case EvictPod():
            evict(situation, asked)
        case AddEphemeralContainer():
            return ephemeral.with_asked(situation, asked)
    return None


def apply_listing(situation: Situation, signal: PodListed) -> PodJson | None:
    """Record that the source lists the pod; returns the pod after an edit in place, else None.

    A terminating pod starts again after it is gone. So does a pod whose edit cannot be made in place.
    """
    observed = situation.observed
    if signal.pod and signal.source == names.API_SOURCE and situation.behaviour >= HOOKS_AS_FIRST_TAKEN:
        signal = replace(signal, pod=without_new_hooks(situation.source, signal.pod))
    pod, outcome = signal.pod, outcome_of(situation, signal)
    if signal.resize:
        observed.resize_pending = signal.resize.pending
    if signal.source == names.API_SOURCE:
        return edited_in_api(situation, signal, outcome)
    if outcome is Outcome.REPLACED and observed.deletion is None:
        request_deletion(situation, DeletionRequested("file", "ManifestReplaced", why_replaced(situation, signal)))
    observed.listed_again = observed.deletion is not None
    observed.listed_pod = pod if observed.listed_again else None
    if pod is None:
        return None
    return apply_edit(situation, signal, pod) if outcome is Outcome.IN_PLACE else not_edited(situation, signal, pod)


def edited_in_api(situation: Situation, signal: PodListed, outcome: Outcome) -> PodJson | None:
    """Apply what the API lists; it rejects edits that need another pod, and never takes back a deletion."""
    observed = situation.observed
    if signal.pod is None or observed.deletion or observed.lifecycle is not Lifecycle.SYNC:
        return None
    if outcome is Outcome.NOTHING:
        return not_edited(situation, signal, signal.pod)
    return apply_edit(situation, signal, signal.pod)


def apply_edit(situation: Situation, signal: PodListed, pod: PodJson) -> PodJson:
    """Apply an edit in place, as far as the running containers can follow.

    A container whose preStop hook runs, or has run, for a resize is stopped even if the resize is taken back: it has been told to
    end, and the kubelet would be inside killContainer. Listings of earlier releases left it running.
    """
    told_to_end = [name for name in restarting(situation) if signal.resize and is_being_stopped(situation, name)]
    taken = allocate(situation, taken_over(situation.source, pod), decided=signal.resize is not None)
    redefine(situation, taken)
    still = restarting(replace(situation, source=taken))
    for name in told_to_end:
        situation.facts(name).outdated |= name not in still
    return taken


def not_edited(situation: Situation, signal: PodListed, pod: PodJson) -> PodJson | None:
    """Record a listing that changes nothing of the pod; the generation may be that of a resize that is pending, or taken back."""
    if signal.resize is None:
        situation.observed.resize_pending = None  # the source no longer asks for a resize that was refused
        return None
    metadata, generation = situation.source["metadata"], pod["metadata"].get("generation")
    if situation.observed.deletion or generation in (None, metadata.get("generation")):
        return None
    return {**situation.source, "metadata": {**metadata, "generation": generation}}


def status_given(situation: Situation, signal: StatusGiven) -> None:
    """Record what others wrote into the status: all their conditions, and a final phase."""
    situation.observed.given_conditions = dict(signal.conditions)
    if signal.ended:
        has_ended(situation.observed, signal.ended)


def outcome_of(situation: Situation, signal: PodListed) -> Outcome:
    """Return what a listing does to the pod; without `in_place` any edit replaces it."""
    if signal.pod is None:
        return Outcome.NOTHING
    if signal.in_place:
        return judge(situation.observed, situation.source, signal.pod, pod_level=signal.resize is not None)
    same = lasting(signal.pod) == lasting(without_ephemeral(situation.source))
    return Outcome.NOTHING if same else Outcome.REPLACED


def why_replaced(situation: Situation, signal: PodListed) -> str:
    """Explain why an edited pod is replaced."""
    message = "its manifest was changed and has a uid of its own"
    if signal.pod is None or not signal.in_place:
        return message
    found = changes(situation.source, signal.pod, pod_level=signal.resize is not None)
    return f"{message}: {needs_another_pod(found)} can't be changed in place"


def request_deletion(situation: Situation, signal: DeletionRequested) -> None:
    """Record a deletion; a second one may shorten the grace period but never extend it."""
    observed = situation.observed
    grace = pod_grace(situation.spec, signal.grace)
    if observed.deletion is None:
        observed.deletion = Deletion(situation.now, grace, signal.reason, signal.message)
        prepare_termination(observed)
    elif (shorter := Grace(grace, situation.now)).over_at < deletion_grace(observed.deletion).over_at:
        observed.deletion.grace, observed.deletion.grace_asked_at = shorter.length, shorter.since


def is_news(situation: Situation, signal: RuntimeChanged) -> bool:
    """Report whether a hint says anything that is neither known nor about to be answered by an action under way."""
    if not signal.exited and not signal.sandbox_lost:
        return True
    stopping = {action.container_id for action in situation.busy.values() if isinstance(action, StopContainer)}
    if not set(signal.exited) <= known_ends(situation.observed) | stopping:
        return True
    return signal.sandbox_lost and not sandbox_known_lost(situation)


def known_ends(observed: Observed) -> set[str]:
    """Return the ids of the containers that are known to have ended."""
    ends = [end for facts in observed.containers.values() for end in (facts.exit, facts.last_exit) if end]
    return {end.container_id for end in ends}.union(*observed.dead_containers.values())


def sandbox_known_lost(situation: Situation) -> bool:
    """Report whether no sandbox is left to lose: none is ready or being made, or it is being stopped."""
    match situation.busy.get(SANDBOX_KEY):
        case RunPodSandbox():
            return False
        case StopPodSandbox():
            return True
        case _:
            return not situation.sandbox_id
