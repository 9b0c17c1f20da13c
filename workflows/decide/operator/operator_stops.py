"""Shortens the grace period of a terminating pod: the Update StopPod.

A grace period is only ever shortened, never below the shortest: a container is always sent its stop signal first
(pkg/kubelet/pod_workers.go UpdatePod, calculateEffectiveGracePeriod).
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
    """Return why there is nothing to shorten: StillWanted or AlreadyDown."""
    pod, observed = situation.key, situation.observed
    if observed.lifecycle is Lifecycle.TERMINATED:
        return Refusal("AlreadyDown", f"{pod} is down already: nothing of it runs that could be stopped")
    if observed.lifecycle is not Lifecycle.SYNC or observed.deletion:
        return None
    if observed.waiting_for:
        message = (
            f"{pod} has not begun: it waits for its predecessor ({observed.waiting_for}); --uid says which is meant"
        )
        return Refusal("StillWanted", message)
    message = f"{pod} is not terminating, its source lists it: remove its manifest first, or evict it"
    return Refusal("StillWanted", message)


def stops(situation: Situation, asked: StopPod) -> PodStops:
    """Return the Update's answer."""
    before, asked_for = effective_grace(situation), asked_grace(situation, asked)
    holds = min(before, asked_for, key=lambda one: one.over_at)
    return PodStops(
        asked.operator,
        asked_for.length,
        holds.length,
        kills_at(situation, holds),
        max(before.over_at - holds.over_at, NO_SOONER),
    )


def asked_grace(situation: Situation, asked: StopPod) -> Grace:
    """Return the grace period that the operator asks for, from now on."""
    return Grace(pod_grace(situation.spec, asked.grace), situation.now)


def shorten_grace(situation: Situation, asked: StopPod) -> None:
    """Record a grace period that ends sooner than the current one; any other changes nothing."""
    asked_for = asked_grace(situation, asked)
    if asked_for.over_at < effective_grace(situation).over_at:
        situation.observed.shortening = Shortening(asked_for.since, asked_for.length, asked.operator)


def kills_at(situation: Situation, grace: Grace) -> datetime:
    """Return when the last container is killed that does not end by itself.

    A container that waits for others or for its preStop hook is sent its stop signal at the end of the grace period at
    the latest, and then has its minimum.
    """
    live, at = live_containers(situation), max(grace.over_at, situation.now + SHORTEST)
    if any(hooks.has_pre_stop(situation, one) and not hooks.outcome(situation, one, Hook.PRE_STOP) for one in live):
        return at + hooks.LEFT_AFTER_HOOK
    return at + SHORTEST if waiting_for_others(situation, live) else at
