"""What an operator may ask about a pod's end: that a stop which is under way is over sooner.

Asked by PodWorkflow for the Update StopPod. The grace only gets shorter, as for everybody else who asks (`grace`), and never
below the shortest: a container is always sent its stop signal first (pkg/kubelet/pod_workers.go UpdatePod,
calculateEffectiveGracePeriod).
"""

from datetime import datetime, timedelta
from typing import Final

from proto.temporal.hooks import Hook
from proto.temporal.operator import PodStops, StopPod
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Shortening
from workflows.decide.containers.termination_order import live_containers, waiting_for_others
from workflows.decide.ending.grace import SHORTEST, Grace, effective_grace, pod_grace
from workflows.decide.hooks import hooks
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation

NO_SOONER: Final = timedelta()


def why_no_stop(situation: Situation, _: StopPod) -> Refusal | None:
    """Say why there is no stop to hasten, if so: StillWanted or AlreadyDown."""
    pod, observed = situation.key, situation.observed
    if observed.lifecycle is Lifecycle.TERMINATED:
        return Refusal("AlreadyDown", f"{pod} is down already: nothing of it runs that could be stopped")
    if observed.lifecycle is not Lifecycle.SYNC or observed.deletion:
        return None
    if observed.waiting_for:
        told = f"{pod} has not begun: it waits for its predecessor ({observed.waiting_for}); --uid says which is meant"
        return Refusal("StillWanted", told)
    told = f"{pod} is wanted, its source lists it: remove its manifest, and this hastens its stop; or evict it"
    return Refusal("StillWanted", told)


def stops(situation: Situation, asked: StopPod) -> PodStops:
    """Say what holds once this is heard."""
    before, wish = effective_grace(situation), wished(situation, asked)
    holds = min(before, wish, key=lambda one: one.over_at)
    return PodStops(
        asked.operator,
        wish.length,
        holds.length,
        kills_at(situation, holds),
        max(before.over_at - holds.over_at, NO_SOONER),
    )


def wished(situation: Situation, asked: StopPod) -> Grace:
    """Say which grace an operator wishes, from now on."""
    return Grace(pod_grace(situation.spec, asked.grace), situation.now)


def shorten_grace(situation: Situation, asked: StopPod) -> None:
    """Write down a grace that is over sooner than the one that counts; any other changes nothing."""
    wish = wished(situation, asked)
    if wish.over_at < effective_grace(situation).over_at:
        situation.observed.shortening = Shortening(wish.since, wish.length, asked.operator)


def kills_at(situation: Situation, grace: Grace) -> datetime:
    """Say when the last container is killed that does not go by itself.

    What has to wait for others or for its preStop hook is sent its stop signal at the end of the grace at the latest, and
    then has what is due to it.
    """
    live, at = live_containers(situation), max(grace.over_at, situation.now + SHORTEST)
    if any(hooks.has_pre_stop(situation, one) and not hooks.outcome(situation, one, Hook.PRE_STOP) for one in live):
        return at + hooks.LEFT_AFTER_HOOK
    return at + SHORTEST if waiting_for_others(situation, live) else at
