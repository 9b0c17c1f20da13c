"""Tracks which pods are terminating, for the worker's activities, by the snapshots that workflows publish."""

from activities.objects.terminating_pods import TerminatingPods
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle
from worker.host.pod_cache import PodCache
from worker.host.pod_metrics import PodMetrics


class TerminationTracker:
    """Receives each snapshot before the cache."""

    def __init__(self, terminating: TerminatingPods, cache: PodCache, behind: PodCache | PodMetrics) -> None:
        """Start with the snapshots of the previous worker from the cache: a replay publishes nothing again."""
        self._terminating, self._behind = terminating, behind
        for snapshot in cache.snapshots():
            self._record(snapshot)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Pass a snapshot on."""
        self._record(snapshot)
        self._behind.publish(snapshot)

    def _record(self, snapshot: PodSnapshot) -> None:
        self._terminating.set(snapshot.uid, terminating=snapshot.lifecycle == Lifecycle.TERMINATING)
