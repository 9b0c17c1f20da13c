"""Evictions by signal, and how old the measurements were (pkg/kubelet/metrics).

Part of `Metrics`.
"""

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families


class EvictionCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made, signal = Families(registry), "eviction_signal"
        self._evictions = made.counter(
            "kubelet_evictions", "Cumulative number of pod evictions by eviction signal", signal
        )
        self._stats_age = made.histogram(
            "kubelet_eviction_stats_age_seconds",
            "Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
            signal,
        )

    def evicted(self, signal: str) -> None:
        """Count an eviction."""
        self._evictions(signal).inc()

    def ranked(self, signal: str, seconds: float) -> None:
        """Note how long before the choice of a victim the node was measured."""
        self._stats_age.labels(signal).observe(seconds)
