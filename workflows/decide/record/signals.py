"""What a signal changes: signals are hints and wishes, so none of them decides anything here (design §4.3)."""

from proto.temporal.activities.requests import RunPodSandbox, StopContainer, StopPodSandbox
from proto.temporal.names import API_SOURCE
from proto.temporal.operator import AddEphemeralContainer, EvictPod, SetCondition, SkipBackoff, StopPod
from proto.temporal.pod import Lifecycle, Observed, PodJson
from proto.temporal.pod_inputs import Deletion
from proto.temporal.signals import (
    DeletionRequested,
    ObjectsChanged,
    PodListed,
    ProbeVerdict,
    RuntimeChanged,
    StatusGiven,
    StorageExceeded,
)
from workflows.decide.containers.definitions import redefine
from workflows.decide.ending.grace import Grace, deletion_grace, pod_grace
from workflows.decide.operator import ephemeral
from workflows.decide.operator.evictions import evict
from workflows.decide.operator.local_storage import storage_exceeded
from workflows.decide.operator.operator_stops import shorten_grace
from workflows.decide.operator.skips import skip
from workflows.decide.record.first_sight import has_ended
from workflows.decide.record.listing import lasting, without_ephemeral
from workflows.decide.record.updates import Outcome, changes, judge, needs_another_pod, taken_over
from workflows.decide.resources.allocation import allocate
from workflows.decide.situation import Situation
from workflows.decide.status.gates import set_condition
from workflows.decide.steps.probes import verdict_reached
from workflows.decide.steps.termination import prepare_termination
from workflows.decide.volumes.refresh import objects_changed

OperatorRequest = SkipBackoff | SetCondition | StopPod | EvictPod | AddEphemeralContainer
"""What an operator asks, by an Update."""
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


def apply_signal(situation: Situation, signal: Signal) -> PodJson | None:
    """Write down what a signal says; answers the pod as it is from now on, where the signal changes it."""
    situation.observed.signals += 1
    if isinstance(signal, PodListed | DeletionRequested | StatusGiven):
        return None if is_late(situation.observed, signal) else apply_source_signal(situation, signal)
    if isinstance(signal, OperatorRequest):
        return apply_request(situation, signal)
    apply_node_signal(situation, signal)
    return None


def apply_source_signal(situation: Situation, signal: PodListed | DeletionRequested | StatusGiven) -> PodJson | None:
    """Take what the pod's source says; answers as `hear`."""
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
    """Take what was seen on the node."""
    match signal:
        case ProbeVerdict():
            verdict_reached(situation, signal)
        case ObjectsChanged():
            objects_changed(situation, signal)
        case StorageExceeded():
            storage_exceeded(situation, signal)
        case RuntimeChanged() if is_news(situation, signal):
            situation.observed.runtime_stale = True
            situation.observed.runtime_stale_again = situation.is_busy("runtime")


def apply_request(situation: Situation, asked: OperatorRequest) -> PodJson | None:
    """Do what an operator asks; answers as `hear`."""
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


def is_late(observed: Observed, signal: PodListed | DeletionRequested | StatusGiven) -> bool:
    """Say whether a source has said something newer already; sources that do not count (0) are always heard."""
    if not signal.sequence:
        return False
    newest = observed.heard.get(signal.source, 0)
    observed.heard[signal.source] = max(newest, signal.sequence)
    return signal.sequence < newest


def apply_listing(situation: Situation, signal: PodListed) -> PodJson | None:
    """Take that the pod is wanted, and as what: one that goes comes back, one that was edited under its own uid changes.

    What can't be changed in place goes and comes back, too. Answers the pod as an edit in place leaves it.
    """
    observed, pod = situation.observed, signal.pod
    outcome = outcome_of(situation, signal)
    if signal.source == API_SOURCE:
        return edited_in_api(situation, signal, outcome)
    if outcome is Outcome.REPLACED and observed.deletion is None:
        request_deletion(situation, DeletionRequested("file", "ManifestReplaced", why_replaced(situation, signal)))
    observed.listed_again = observed.deletion is not None
    observed.listed_pod = pod if observed.listed_again else None
    if pod is None:
        return None
    if outcome is not Outcome.IN_PLACE:
        observed.resize_pending = None  # nothing of what the source asks for is refused any more
        return None
    return take_over(situation, pod)


def edited_in_api(situation: Situation, signal: PodListed, outcome: Outcome) -> PodJson | None:
    """Take what the API lists now; it lets nobody change what can't be changed, and a deletion there is never taken back."""
    observed = situation.observed
    if signal.pod is None or observed.deletion or observed.lifecycle is not Lifecycle.SYNC:
        return None
    if outcome is Outcome.NOTHING:
        observed.resize_pending = None  # nothing of what the API asks for is refused any more
        return None
    return take_over(situation, signal.pod)


def take_over(situation: Situation, pod: PodJson) -> PodJson:
    """Go on with the pod as it is listed now, as far as its running parts can follow."""
    taken = allocate(situation, taken_over(situation.source, pod))
    redefine(situation, taken)
    return taken


def status_given(situation: Situation, signal: StatusGiven) -> None:
    """Take what others have written into the status: conditions as a whole, and an end that the API shows."""
    situation.observed.given_conditions = dict(signal.conditions)
    if signal.ended:
        has_ended(situation.observed, signal.ended)


def outcome_of(situation: Situation, signal: PodListed) -> Outcome:
    """Say what becomes of the pod by what its source lists now; a source that knows of no edit in place replaces it."""
    if signal.pod is None:
        return Outcome.NOTHING
    if signal.in_place:
        return judge(situation.observed, situation.source, signal.pod)
    same = lasting(signal.pod) == lasting(without_ephemeral(situation.source))
    return Outcome.NOTHING if same else Outcome.REPLACED


def why_replaced(situation: Situation, signal: PodListed) -> str:
    """Say why an edited pod goes."""
    message = "its manifest was changed and has a uid of its own"
    if signal.pod is None or not signal.in_place:
        return message
    return f"{message}: {needs_another_pod(changes(situation.source, signal.pod))} can't be changed in place"


def request_deletion(situation: Situation, signal: DeletionRequested) -> None:
    """Write down that the pod shall go; a second wish may shorten the grace, never lengthen it."""
    observed = situation.observed
    grace = pod_grace(situation.spec, signal.grace)
    if observed.deletion is None:
        observed.deletion = Deletion(situation.now, grace, signal.reason, signal.message)
        prepare_termination(observed)
    elif (wish := Grace(grace, situation.now)).over_at < deletion_grace(observed.deletion).over_at:
        observed.deletion.grace, observed.deletion.grace_asked_at = wish.length, wish.since


def is_news(situation: Situation, signal: RuntimeChanged) -> bool:
    """Say whether a hint names anything that we neither know nor are about to be told by an action of our own."""
    if not signal.exited and not signal.sandbox_lost:
        return True
    stopping = {action.container_id for action in situation.busy.values() if isinstance(action, StopContainer)}
    if not set(signal.exited) <= known_ends(situation.observed) | stopping:
        return True
    return signal.sandbox_lost and not sandbox_known_lost(situation)


def known_ends(observed: Observed) -> set[str]:
    """The containers of which we know that they have ended."""
    ends = [end for facts in observed.containers.values() for end in (facts.exit, facts.last_exit) if end]
    return {end.container_id for end in ends}.union(*observed.dead_containers.values())


def sandbox_known_lost(situation: Situation) -> bool:
    """Say whether no sandbox is left that could be lost: none is ready or being made, or we are stopping it."""
    match situation.busy.get("sandbox"):
        case RunPodSandbox():
            return False
        case StopPodSandbox():
            return True
        case _:
            return not situation.sandbox_id
