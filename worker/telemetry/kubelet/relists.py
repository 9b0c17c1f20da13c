"""What the poller sees: listings and the stream of events of the runtime (the kubelet's PLEG), orphans, and mirror pods.

Part of `Metrics`.
"""

import time
from typing import Final

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families

_STREAM: Final = "kubelet_evented_pleg_connection"
_OF_STREAM: Final = "streaming connection with the CRI runtime"


class RelistTimes:
    """The times; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._seconds = made.histogram(
            "kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG."
        )
        self._interval = made.histogram(
            "kubelet_pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG."
        )
        self._last_seen = made.gauge(
            "kubelet_pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active."
        )
        self._opened = made.counter(
            f"{_STREAM}_success_count", "The number of times a streaming client was obtained to receive CRI Events."
        )
        self._lost = made.counter(
            f"{_STREAM}_error_count", f"The number of errors encountered during the establishment of {_OF_STREAM}."
        )
        self._latency = made.histogram(
            f"{_STREAM}_latency_seconds", f"The latency of {_OF_STREAM}, measured in seconds."
        )
        self._orphans = made.counter(
            "kubelet_orphaned_runtime_pods_total",
            "Number of pods that have been detected in the container runtime without being already known to the pod worker. "
            "This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the local "
            "configuration, which is unusual.",
        )
        self._mirrors = made.gauge(
            "kubelet_mirror_pods",
            "The number of mirror pods the kubelet will try to create (one per admitted static pod)",
        )
        self._last: float | None = None

    def relisted(self, seconds: float) -> None:
        """Count one listing of the runtime and its duration."""
        now = time.monotonic()
        self._seconds.observe(seconds)
        if self._last is not None:
            self._interval.observe(now - self._last)
        self._last = now
        self._last_seen.set_to_current_time()

    def event_stream(self, *, opened: bool) -> None:
        """Count an event stream that was opened, or one that broke."""
        (self._opened if opened else self._lost)().inc()

    def event_received(self, created_at: float) -> None:
        """Count an event of the runtime, by the Unix time at which it happened."""
        self._latency.observe(max(0.0, time.time() - created_at))
        self._last_seen.set_to_current_time()

    def orphan_found(self) -> None:
        """Count a pod of the runtime that no workflow and no source knows."""
        self._orphans().inc()

    def mirrors_wanted(self, count: int) -> None:
        """Set how many static pods have a mirror pod, or are to have one."""
        self._mirrors.set(count)
