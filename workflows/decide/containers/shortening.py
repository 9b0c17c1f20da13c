"""Shortens a stop under way: a second stop with a shorter grace period is sent beside it.

The kubelet cancels its call and makes another (pkg/kubelet/pod_workers.go UpdatePod, calculateEffectiveGracePeriod).
Cancelling an activity would take effect only at its next heartbeat. Both stops return the same end, and the first
answer is recorded. A grace period is never extended.
"""

from collections.abc import Iterator
from datetime import datetime

from proto.temporal.activities.requests import ShortenStop, StopContainer
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.ending.grace import SHORTEST, Grace, effective_grace
from workflows.decide.situation import Situation, unless_backing_off


def shorten_stops(situation: Situation, reason: str) -> Iterator[Action | Wake]:
    """Shorten every stop that leaves a container at least a second too long; CRI counts in seconds."""
    counts, live = effective_grace(situation), live_containers(situation)
    soonest = max(counts.over_at, situation.now + SHORTEST)
    for stop in situation.busy.values():
        if isinstance(stop, StopContainer) and stop.name in live and soonest + SHORTEST <= over_at(situation, stop):
            shorter = ShortenStop(situation.key, stop.name, stop.container_id, counts.length, counts.since, reason)
            yield from unless_backing_off(situation, shorter)


def over_at(situation: Situation, stop: StopContainer) -> datetime:
    """Return when a stop kills, by the shortest grace period it was given."""
    stops = [
        one
        for one in situation.busy.values()
        if isinstance(one, StopContainer | ShortenStop) and one.container_id == stop.container_id
    ]
    return min(Grace(one.grace, one.asked_at).over_at for one in stops)
