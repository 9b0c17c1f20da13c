"""Which pods end together at a shutdown, in which order, and with which grace period.

Rules are the kubelet's (pkg/kubelet/nodeshutdown/nodeshutdown_manager.go groupByPriority, killPods). Critical, static and mirror pods
are no exceptions: their priority says when they end.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proto.kubernetes.priority import SYSTEM_CRITICAL_PRIORITY, SYSTEM_NODE_CRITICAL, is_critical
from workflows.decide.shutdown.periods import Period

NODE_CRITICAL_PRIORITY: Final = SYSTEM_CRITICAL_PRIORITY + 1000


@dataclass(frozen=True, slots=True)
class EndingPod:
    """A pod as a shutdown sees it."""

    uid: str
    priority: int = 0
    grace_seconds: int | None = None
    """The pod's own; None if its source has none."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that end together."""

    period: Period
    pods: Sequence[EndingPod] = field(default_factory=tuple)


def ending_pod(pod: Mapping[str, Any]) -> EndingPod:
    """Return what decides about a pod.

    The name of a system class counts as its priority, because nothing resolves the classes of a manifest.
    """
    spec = pod["spec"]
    priority = spec.get("priority")
    if priority is None:
        priority = 0
        if is_critical(pod):
            by_node = spec.get("priorityClassName") == SYSTEM_NODE_CRITICAL
            priority = NODE_CRITICAL_PRIORITY if by_node else SYSTEM_CRITICAL_PRIORITY
    return EndingPod(pod["metadata"]["uid"], priority, spec.get("terminationGracePeriodSeconds"))


def group_by_priority(periods: Sequence[Period], pods: Iterable[EndingPod]) -> list[Group]:
    """Distribute pods over sorted periods, of which there is at least one.

    A pod belongs to the highest period that is not above it, one below all to the lowest. Of periods with one priority the
    first counts for pods of just this priority, the last for those above.
    """
    found: list[list[EndingPod]] = [[] for _ in periods]
    priorities = [one.priority for one in periods]
    for pod in pods:
        if pod.priority in priorities:
            found[priorities.index(pod.priority)].append(pod)
        else:
            found[max(0, bisect_right(priorities, pod.priority) - 1)].append(pod)
    return [Group(period, tuple(those)) for period, those in zip(periods, found, strict=True)]


def ordered(periods: Sequence[Period], pods: Iterable[EndingPod]) -> list[Group]:
    """Return the groups that have pods, in the order in which they end; nobody waits for a group without any."""
    return [one for one in group_by_priority(periods, pods) if one.pods]


def grace_seconds(group: Group, pod: EndingPod) -> int:
    """Return a pod's grace period: that of its group, or its own if it is not longer."""
    seconds = group.period.seconds
    return seconds if pod.grace_seconds is None else min(seconds, pod.grace_seconds)
