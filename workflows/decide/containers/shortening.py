"""A shorter grace takes effect while a stop is under way: a second stop is sent beside it, and the runtime kills sooner.

Asked while a pod is undone. The kubelet cancels its call and makes another (pkg/kubelet/pod_workers.go UpdatePod,
calculateEffectiveGracePeriod); a cancel of an activity would arrive only with a heartbeat. Both answer the same end, and
whichever comes first is written down. Nothing here ever lengthens a grace.
"""

from collections.abc import Iterator
from datetime import datetime

from proto.temporal.activities.requests import ShortenStop, StopContainer
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.ending.grace import SHORTEST, Grace, effective_grace
from workflows.decide.situation import Situation, unless_backing_off


def shorten_stops(situation: Situation, reason: str) -> Iterator[Action | Wake]:
    """Shorten every stop that leaves a container a second or more longer than counts now; CRI counts in seconds."""
    counts, live = effective_grace(situation), live_containers(situation)
    soonest = max(counts.over_at, situation.now + SHORTEST)
    for stop in situation.busy.values():
        if isinstance(stop, StopContainer) and stop.name in live and soonest + SHORTEST <= over_at(situation, stop):
            shorter = ShortenStop(situation.key, stop.name, stop.container_id, counts.length, counts.since, reason)
            yield from unless_backing_off(situation, shorter)


def over_at(situation: Situation, stop: StopContainer) -> datetime:
    """Say when a stop kills, by the shortest grace that it was told."""
    told = [
        one
        for one in situation.busy.values()
        if isinstance(one, StopContainer | ShortenStop) and one.container_id == stop.container_id
    ]
    return min(Grace(one.grace, one.asked_at).over_at for one in told)
