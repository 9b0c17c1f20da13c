"""The kubelet's metrics of pods and containers, computed from the snapshots that workflows publish."""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

from activities.probes.result_counts import ProbeResultCounts
from proto.pod_snapshot import PodSnapshot, is_over
from proto.temporal.pod import Lifecycle
from worker.host.pod_cache import PodCache
from worker.telemetry.metrics import Metrics
from worker.telemetry.probe_metrics import probe_text

STATES: Final = ("created", "running", "exited", "unknown")  # kubelet_running_containers' values of container_state
RUNNING: Final = "Running"


class PodMetrics:
    """Receives each snapshot before the cache."""

    def __init__(self, cache: PodCache, metrics: Metrics) -> None:
        self._cache, self._metrics = cache, metrics
        self._pending_since: dict[str, float] = {}
        """By UID; a pod that was pending before this process started is not measured, because its start is not known.
        """
        self._met = {one.uid for one in cache.snapshots()}
        self._going_since: dict[str, float] = {}
        self._probes: ProbeResultCounts | None = None
        metrics.on_read(self._count)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Pass a snapshot on; record the pod's start-up time when it first runs."""
        uid = snapshot.uid
        if snapshot.lifecycle == Lifecycle.TERMINATED:
            self._met.discard(uid)
            self._pending_since.pop(uid, None)
            if self._probes is not None and is_over(snapshot):
                self._probes.forget(uid)
            if since := self._going_since.pop(uid, None):
                self._metrics.pod_ended(time.monotonic() - since)
        elif snapshot.lifecycle == Lifecycle.TERMINATING:
            self._going_since.setdefault(uid, time.monotonic())
        elif uid not in self._met:
            self._met.add(uid)
            self._pending_since[uid] = time.monotonic()
        if snapshot.phase == RUNNING and uid in self._pending_since:
            self._metrics.pod_started(time.monotonic() - self._pending_since.pop(uid))
        self._cache.publish(snapshot)

    def show_probes(self, tallies: ProbeResultCounts) -> None:
        """Add the probe metrics of the present pods; those of a pod that is gone are dropped."""
        self._probes = tallies
        self._metrics.on_probes_read(lambda: probe_text(tallies, {one.uid for one in self._cache.snapshots()}))

    def _count(self) -> None:
        snapshots = self._cache.snapshots()
        ephemeral = sum(len(one.status.get("ephemeralContainerStatuses", ())) for one in snapshots)
        self._metrics.running(*running(snapshots), ephemeral)


def running(snapshots: Iterable[PodSnapshot]) -> tuple[int, dict[str, int]]:
    """Count pods with a ready sandbox, and containers by the kubelet's states."""
    pods, states = 0, Counter(dict.fromkeys(STATES, 0))
    for snapshot in snapshots:
        pods += snapshot.sandbox_ready
        states.update(
            one.state.removeprefix("CONTAINER_").lower() for one in snapshot.containers.values() if one.container_id
        )
    return pods, dict(states)
