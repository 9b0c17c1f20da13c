"""Tells the activities of a worker which of its pods go, from the snapshots that the workflows publish anyway."""

from activities.objects.terminating_pods import TerminatingPods
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle
from worker.host.pod_cache import PodCache
from worker.host.pod_numbers import PodNumbers


class Departures:
    """Stands before the cache and sees each snapshot on its way."""

    def __init__(self, going: TerminatingPods, cache: PodCache, behind: PodCache | PodNumbers) -> None:
        """Take what the worker before this one knew from the cache: a replay tells nothing again."""
        self._going, self._behind = going, behind
        for snapshot in cache.snapshots():
            self._tell(snapshot)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Hand a snapshot on."""
        self._tell(snapshot)
        self._behind.publish(snapshot)

    def _tell(self, snapshot: PodSnapshot) -> None:
        self._going.set(snapshot.uid, terminating=snapshot.lifecycle == Lifecycle.TERMINATING)
