"""What a signal changes: signals are hints and wishes, so none of them decides anything here (design §4.3)."""

from proto.temporal.pod import Deletion
from proto.temporal.requests import StopContainer, StopPodSandbox
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from workflows.decide.grace import pod_grace, shorter
from workflows.decide.situation import Situation

Signal = PodListed | DeletionRequested | RuntimeChanged


def hear(situation: Situation, signal: Signal) -> None:
    """Write down what a signal says."""
    observed = situation.observed
    observed.signals += 1
    match signal:
        case PodListed():
            observed.listed_again = observed.deletion is not None
        case DeletionRequested():
            observed.listed_again = False
            request_deletion(situation, signal)
        case RuntimeChanged():
            observed.runtime_stale = observed.runtime_stale or tells_news(situation, signal)


def request_deletion(situation: Situation, signal: DeletionRequested) -> None:
    """Write down that the pod shall go; a second wish may shorten the grace, never lengthen it."""
    observed = situation.observed
    grace = pod_grace(situation.spec, signal.grace)
    if observed.deletion is None:
        observed.deletion = Deletion(situation.now, grace, signal.reason, signal.message)
    else:
        observed.deletion.grace = shorter(observed.deletion.grace, grace)


def tells_news(situation: Situation, signal: RuntimeChanged) -> bool:
    """Say whether a hint names anything that we neither know nor are about to be told by an action of our own."""
    if not signal.exited:
        return not sandbox_under_way(situation) if signal.sandbox_lost else True
    known = {facts.exit.container_id for facts in situation.observed.containers.values() if facts.exit}
    stopping = {action.container_id for action in situation.busy.values() if isinstance(action, StopContainer)}
    return not set(signal.exited) <= known | stopping


def sandbox_under_way(situation: Situation) -> bool:
    """Say whether the sandbox is being stopped by ourselves, or known to be down."""
    sandbox = situation.observed.sandbox
    return sandbox is None or not sandbox.ready or isinstance(situation.busy.get("sandbox"), StopPodSandbox)
