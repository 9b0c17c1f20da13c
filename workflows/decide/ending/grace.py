"""How long a container has between SIGTERM and SIGKILL (pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.kubernetes.grace_seconds import LONGEST_GRACE, grace_of_seconds
from proto.temporal.activities.requests import StopContainer
from proto.temporal.pod_inputs import Deletion, Eviction
from workflows.decide.situation import Situation

DEFAULT: Final = timedelta(seconds=30)
SHORTEST: Final = timedelta(seconds=1)
"""A grace of zero would leave no time to write down how it ended."""


def pod_grace(spec: V1PodSpec, asked: timedelta | None) -> timedelta:
    """Say the grace: what the deletion asks for, else the pod's own, never below a second."""
    own = spec.termination_grace_period_seconds
    return bounded(asked if asked is not None else DEFAULT if own is None else grace_of_seconds(own))


def bounded(grace: timedelta) -> timedelta:
    """Keep a grace between the shortest and the longest."""
    return max(min(grace, LONGEST_GRACE), SHORTEST)


@dataclass(frozen=True, slots=True)
class Grace:
    """So much time, and from when it counts."""

    length: timedelta
    since: datetime

    @property
    def over_at(self) -> datetime:
        """When SIGKILL is due."""
        return self.since + self.length


def deletion_grace(deletion: Deletion) -> Grace:
    """Say the grace that a deletion leaves; a later wish counts from when it was heard."""
    return Grace(max(deletion.grace, SHORTEST), deletion.grace_asked_at or deletion.requested_at)


def eviction_grace(eviction: Eviction, own: timedelta) -> Grace:
    """Say the grace that an eviction leaves; `own` is the pod's."""
    return Grace(own if eviction.grace is None else eviction.grace, eviction.at)


def effective_grace(situation: Situation) -> Grace:
    """Say the grace of a stop that is asked for now: of several that count, the one that is over first."""
    observed, own = situation.observed, pod_grace(situation.spec, None)
    asked = [deletion_grace(observed.deletion)] if observed.deletion else []
    if observed.eviction:
        asked.append(eviction_grace(observed.eviction, own))
    if observed.finished_at:
        asked.append(Grace(own, observed.finished_at))
    if observed.shortening:
        asked.append(Grace(max(observed.shortening.grace, SHORTEST), observed.shortening.at))
    return min(asked, key=lambda one: one.over_at, default=Grace(own, situation.now))


def stop_request(situation: Situation, name: str, reason: str, grace: Grace | None = None) -> StopContainer:
    """Write the request that stops the newest instance of a container; unless told otherwise it has the pod's grace from now."""
    given = grace or Grace(pod_grace(situation.spec, None), situation.now)
    return StopContainer(
        pod=situation.key,
        name=name,
        container_id=situation.facts(name).container_id,
        grace=given.length,
        asked_at=given.since,
        reason=reason,
    )
