"""One round of the eviction manager (pkg/kubelet/eviction/eviction_manager.go synchronize): what to do, and to whom.

A round judges the thresholds, then the pods' own limits. If a resource is starved, something is reclaimed first, the node
is measured again (`is_relieved`), and only if that was not enough one pod is evicted. As in the kubelet, the victim is
chosen by the measurement with which the round began, and every threshold must be resolved with its minimum reclaim, even
one whose grace period is not over. After an eviction the next round waits until the pod is cleaned up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from proto.kubernetes.resources.quantity import NANO
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.pressure import Pressure
from proto.temporal.eviction.readings import MemoryReading, NodeReading, Observation, Observations, PodUse
from proto.temporal.eviction.thresholds import Disks, EvictionPolicy, Signal, Threshold
from workflows.decide.eviction.amounts import amount_of
from workflows.decide.eviction.disks import Reclaim, files_counted, reclaims, with_container_fs
from workflows.decide.eviction.limits import exceeded
from workflows.decide.eviction.messages import eviction_annotations, eviction_message
from workflows.decide.eviction.pressure import judge, met_thresholds
from workflows.decide.eviction.ranking import Ranked, Uses, rank
from workflows.decide.eviction.signals import SIGNALS, is_memory

EVERY: Final = timedelta(seconds=10)
"""Between two rounds (evictionMonitoringPeriod)."""
SOONEST: Final = timedelta(seconds=1)
"""Between two rounds while memory might be short before `EVERY` is over, or while the kernel says that it is."""
FASTEST: Final = 64 << 20
"""Bytes a second at which pods are expected to fill memory at most."""
CLEANED_UP_WITHIN: Final = timedelta(seconds=30)
"""How long a round waits for the victims of the one before (podCleanupTimeout)."""
AT_ONCE_SECONDS: Final = 1
"""The grace period for a hard threshold or a pod's own limit (immediateEvictionGracePeriodSeconds)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was measured for a round."""

    observed: Observations
    pods: Sequence[Candidate] = ()
    """The pods of which something runs."""
    uses: Uses = field(default_factory=dict[str, PodUse])
    disks: Disks = field(default_factory=Disks)


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to evict."""

    pod: Candidate
    signal: str
    """As the metric kubelet_evictions names it."""
    message: str
    grace_seconds: int
    """As asked for; a stop never gives less than a second."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Of its event."""
    disrupts: bool = True
    """The pod gets the condition DisruptionTarget: the node is relieved, not a limit of the pod's own enforced."""
    why: str = ""
    """What put it in its place."""
    spared: tuple[str, ...] = ()
    """Critical pods that were ranked before it."""
    next_in_line: str = ""
    """The pod that would have been next, and what put it there; empty if there is none."""

    @property
    def because(self) -> str:
        """Why this pod and not another."""
        spared = (
            f"; before it were critical pods, which are never evicted: {', '.join(self.spared)}" if self.spared else ""
        )
        return f"{self.why}{spared}" + (f"; the next would have been {self.next_in_line}" if self.next_in_line else "")


@dataclass(frozen=True, slots=True)
class Starved:
    """The threshold that is acted on."""

    threshold: Threshold
    found: Observation

    @property
    def resource(self) -> str:
        """What is starved."""
        return SIGNALS[self.threshold.signal].resource


@dataclass(frozen=True, slots=True)
class Round:
    """What a round has found out."""

    pressure: Pressure
    over_limits: tuple[Victim, ...] = ()
    """All pods that exceed a limit of their own; they are evicted, and nothing else happens in this round."""
    starved: tuple[Starved, ...] = ()
    """The thresholds that could be acted on; only the first one is."""
    reclaims: tuple[Reclaim, ...] = ()
    """What to remove first."""


def begin_round(policy: EvictionPolicy, before: Pressure, facts: Facts, now: datetime) -> Round:
    """Judge what was measured."""
    thresholds = with_container_fs(policy.thresholds, facts.disks)
    judged = judge(thresholds, facts.observed, before, transition=policy.transition, now=now)
    if policy.local_storage and (over := tuple(_over_limits(facts))):
        return Round(judged.pressure, over)
    starved = tuple(Starved(one, facts.observed[one.signal]) for one in judged.due)
    removed = reclaims(starved[0].threshold.signal, facts.disks) if starved else ()
    return Round(judged.pressure, (), starved, removed)


def is_relieved(policy: EvictionPolicy, disks: Disks, observed: Observations) -> bool:
    """Report whether a measurement after reclaiming shows that no pod needs to be evicted (reclaimNodeLevelResources)."""
    return not met_thresholds(with_container_fs(policy.thresholds, disks), observed, reclaimed=True)


def until_next_round(thresholds: Iterable[Threshold], observed: Observations) -> timedelta:
    """Return how long memory lasts at least, between `SOONEST` and `EVERY`; a kubelet always waits for `EVERY`.

    A threshold that is met already, and has not led to an eviction, waits for its grace period, or has nobody to evict.
    """
    left = [
        timedelta(seconds=bytes_left / FASTEST)
        for one in thresholds
        if is_memory(one.signal) and one.signal in observed and (bytes_left := _left_of(one, observed[one.signal])) >= 0
    ]
    return max(SOONEST, min([EVERY, *left]))


def usages_to_hear_of(thresholds: Iterable[Threshold], reading: NodeReading) -> dict[Signal, tuple[int, ...]]:
    """Return at which usages of the machine's cgroup, or the pods', a memory threshold is met, files that go first included.

    For notifications of cgroup v1, which know usage alone (memory_threshold_notifier_others.go UpdateThreshold).
    """
    readings = {Signal.MEMORY: reading.memory, Signal.ALLOCATABLE_MEMORY: reading.pods_memory}
    found: dict[Signal, tuple[int, ...]] = {}
    for one in thresholds:
        read = readings.get(one.signal)
        if read and read.usage is not None:
            found[one.signal] = (*found.get(one.signal, ()), _usage_when_met(one, read, read.usage))
    return found


def _usage_when_met(threshold: Threshold, read: MemoryReading, usage: int) -> int:
    capacity = read.available + read.working_set
    return capacity - amount_of(threshold.least, capacity).nanos // NANO + usage - read.working_set


def _left_of(threshold: Threshold, found: Observation) -> int:
    return found.available - amount_of(threshold.least, found.capacity).nanos // NANO


def choose_victim(policy: EvictionPolicy, starved: Starved, facts: Facts) -> Victim | None:
    """Return the pod to evict: the first in rank that is not critical; None if there is none."""
    order = ranking(starved, facts)
    first = next((one for one in order if not one.pod.critical), None)
    if first is None:
        return None
    use = facts.uses.get(first.pod.uid)
    after = next((one for one in order[order.index(first) + 1 :] if not one.pod.critical), None)
    spared = [one.pod.full_name for one in order[: order.index(first)]]
    return Victim(
        first.pod,
        starved.threshold.signal,
        eviction_message(starved.threshold, starved.found, first.pod, use),
        _grace(policy, starved.threshold, first.pod),
        eviction_annotations(starved.resource, first.pod, use),
        why=f"{first.why(starved.resource)}; place {len(spared) + 1} of {len(order)}",
        spared=tuple(spared),
        next_in_line=f"{after.pod.full_name}: {after.why(starved.resource)}" if after else "",
    )


def ranking(starved: Starved, facts: Facts) -> list[Ranked]:
    """Return all pods, the first victim first."""
    counted = files_counted(starved.threshold.signal, facts.disks)
    return rank(facts.pods, facts.uses, starved.resource, counted)


def _over_limits(facts: Facts) -> list[Victim]:
    found = []
    for pod in facts.pods:
        use = facts.uses.get(pod.uid)
        limit = None if use is None or pod.critical else exceeded(pod, use, facts.disks)
        if limit:
            found.append(Victim(pod, limit.signal, limit.message, AT_ONCE_SECONDS, disrupts=False, why=limit.message))
    return found


def _grace(policy: EvictionPolicy, threshold: Threshold, pod: Candidate) -> int:
    if threshold.is_hard:
        return AT_ONCE_SECONDS
    own = pod.grace_seconds
    return policy.longest_grace_seconds if own is None else min(policy.longest_grace_seconds, own)
