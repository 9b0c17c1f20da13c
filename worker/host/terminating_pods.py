"""Tells the worker's activities which pods are terminating, from the snapshots that workflows publish."""

from activities.objects.going_pods import GoingPods
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle
from worker.host.pod_cache import PodCache
from worker.host.pod_metrics import PodMetrics


class TerminatingPods:
    """Receives each snapshot before the cache."""

    def __init__(self, going: GoingPods, cache: PodCache, behind: PodCache | PodMetrics) -> None:
        """Start with the snapshots of the previous worker from the cache: a replay publishes nothing again."""
        self._going, self._behind = going, behind
        for snapshot in cache.snapshots():
            self._tell(snapshot)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Pass a snapshot on."""
        self._tell(snapshot)
        self._behind.publish(snapshot)

    def _tell(self, snapshot: PodSnapshot) -> None:
        self._going.tell(snapshot.uid, going=snapshot.lifecycle == Lifecycle.TERMINATING)
