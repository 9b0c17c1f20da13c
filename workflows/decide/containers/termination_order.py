"""The order in which a pod's containers stop: regular ones first, then the sidecars, last to first.

Used when a pod terminates and when its sandbox is lost. Init containers that are no sidecars delay nothing. All stops
share one grace period: later ones have what is left of it, and once it is over nothing waits
(pkg/kubelet/kuberuntime/kuberuntime_termination_order.go, killContainer).
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from workflows.decide.actions import Action, Wake
from workflows.decide.ending.grace import SHORTEST, effective_grace, stop_request
from workflows.decide.hooks import hooks
from workflows.decide.situation import Situation, is_live, is_start_in_doubt

SHUTDOWN_WINDOW: Final = timedelta(seconds=2)
"""The least that a late stop gets of a longer grace period (kuberuntime_container.go minimumGracePeriodInSeconds)."""


def live_containers(situation: Situation) -> list[str]:
    """Name the containers that the runtime holds and that have not ended, in the spec's order."""
    return [one.name for one in situation.all_containers if is_live(situation.facts(one.name))]


def stop_in_order(situation: Situation, names: list[str], reason: str) -> Iterator[Action | Wake]:
    """Stop those of these containers whose turn it is, side by side, and wake when the grace period is over.

    preStop hooks wait for no turn: all begin at once.
    """
    grace = effective_grace(situation)
    waiting = waiting_for_others(situation, names) if situation.now < grace.over_at else frozenset()
    late = grace.over_at - situation.now < SHUTDOWN_WINDOW
    at_least = min(grace.length, SHUTDOWN_WINDOW) if late else SHORTEST
    for name in names:
        stop = replace(stop_request(situation, name, reason, grace), at_least=at_least)
        yield from hooks.stop(situation, stop, in_turn=name not in waiting)
    if waiting:
        yield Wake(grace.over_at, f"the grace is over: stop {', '.join(sorted(waiting))}")


def waiting_for_others(situation: Situation, names: list[str]) -> frozenset[str]:
    """Name the sidecars that stop later: all while a regular container lives, else all but the last.

    A container that is being started counts as live. After a start that failed, a regular container may live that only a
    re-read of the runtime finds. Ephemeral containers neither wait nor are waited for.
    """
    living = {*names, *situation.starting} - situation.ephemeral_names
    sidecars = [one.name for one in situation.init_containers if one.name in living & situation.sidecar_names]
    others_live = is_start_in_doubt(situation) or not living <= situation.init_names
    return frozenset(sidecars if others_live else sidecars[:-1]).intersection(names)
