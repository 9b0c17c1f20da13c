"""Grace periods: the time between SIGTERM and SIGKILL (pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.kubernetes.grace_seconds import LONGEST_GRACE, grace_of_seconds, longest_end
from proto.temporal.activities.requests import StopContainer
from proto.temporal.pod_inputs import Deletion, Eviction
from workflows.decide.ending.deadline import REASON as DEADLINE
from workflows.decide.situation import Situation

DEFAULT: Final = timedelta(seconds=30)
SHORTEST: Final = timedelta(seconds=1)
"""Without a grace period there would be no time to record how a container ended."""


def pod_grace(spec: V1PodSpec, asked: timedelta | None) -> timedelta:
    """Return the grace period: what the deletion asks for, else the pod's own, at least a second."""
    own = spec.termination_grace_period_seconds
    return bounded(asked if asked is not None else DEFAULT if own is None else grace_of_seconds(own))


def bounded(grace: timedelta) -> timedelta:
    """Keep a grace period between the shortest and the longest."""
    return max(min(grace, LONGEST_GRACE), SHORTEST)


@dataclass(frozen=True, slots=True)
class Grace:
    """A grace period and when it began."""

    length: timedelta
    since: datetime

    @property
    def over_at(self) -> datetime:
        """When SIGKILL is due."""
        return self.since + self.length


def deletion_grace(deletion: Deletion) -> Grace:
    """Return the grace period of a deletion; a shorter one asked for later counts from then."""
    return Grace(max(deletion.grace, SHORTEST), deletion.grace_asked_at or deletion.requested_at)


def eviction_grace(eviction: Eviction, own: timedelta) -> Grace:
    """Return the grace period of an eviction; `own` is the pod's."""
    return Grace(own if eviction.grace is None else eviction.grace, eviction.at)


def effective_grace(situation: Situation) -> Grace:
    """Return the grace period of a stop now: of those that apply, the one that is over first."""
    observed, own = situation.observed, pod_grace(situation.spec, None)
    asked = [deletion_grace(observed.deletion)] if observed.deletion else []
    if observed.eviction:
        asked.append(eviction_grace(observed.eviction, own))
    if observed.finished_at:
        asked.append(Grace(own, observed.finished_at))
    if observed.shortening:
        asked.append(Grace(max(observed.shortening.grace, SHORTEST), observed.shortening.at))
    return min(asked, key=lambda one: one.over_at, default=Grace(own, situation.now))


def end_awaited_until(situation: Situation) -> datetime | None:
    """Return until when a pod that its node ends for its own sake ought to have ended; None for all others.

    A pod whose deadline has passed ends by its own wish, and one that was rejected has not begun.
    """
    eviction = situation.observed.eviction
    if eviction is None or eviction.reason == DEADLINE or eviction.message.startswith(REJECTED_PREFIX):
        return None
    grace = eviction_grace(eviction, pod_grace(situation.spec, None))
    return grace.since + longest_end(grace.length)


def stop_request(situation: Situation, name: str, reason: str, grace: Grace | None = None) -> StopContainer:
    """Return the request that stops a container's newest instance; by default with the pod's grace period from now."""
    given = grace or Grace(pod_grace(situation.spec, None), situation.now)
    return StopContainer(
        pod=situation.key,
        name=name,
        container_id=situation.facts(name).container_id,
        grace=given.length,
        asked_at=given.since,
        reason=reason,
    )
