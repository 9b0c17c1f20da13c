"""Makes metrics that a kubelet has, too: with its name, type, labels, buckets and help, which begins with its stability.

Used by every part of `worker/telemetry/` and `worker/node/process/node_metrics.py`. The kubelet has counters without `_total` in
their names, which prometheus_client cannot make, and writes whole bounds of buckets without a decimal point: `rendered` does both.
"""

import re
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

ALPHA: Final = "ALPHA"
BETA: Final = "BETA"
INTERNAL: Final = "INTERNAL"
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Prometheus' own defaults, component-base/metrics DefBuckets; those of prometheus_client are others."""
TOTAL: Final = "_total"
PLAIN_COUNTERS: Final = frozenset(
    {
        "kubelet_container_aligned_compute_resources_count",
        "kubelet_container_aligned_compute_resources_failure_count",
        "kubelet_evented_pleg_connection_error_count",
        "kubelet_evented_pleg_connection_success_count",
        "kubelet_evictions",
        "kubelet_pod_resources_endpoint_errors_get",
        "kubelet_pod_resources_endpoint_errors_get_allocatable",
        "kubelet_pod_resources_endpoint_errors_list",
        "kubelet_pod_resources_endpoint_requests_get",
        "kubelet_pod_resources_endpoint_requests_get_allocatable",
        "kubelet_pod_resources_endpoint_requests_list",
        "kubelet_preemptions",
    }
)
"""Counters without `_total`; made as gauges, and typed when they are rendered."""
_PLAIN_TYPE: Final = re.compile(rb"^# TYPE (\w+) gauge$", re.MULTILINE)
_WHOLE_BOUND: Final = re.compile(rb'le="([0-9]+)\.0"')


class Families:
    """Makes them in one registry."""

    def __init__(self, registry: CollectorRegistry, stability: str = ALPHA) -> None:
        """Take the registry, and the stability that all of them have."""
        self._registry, self._stability = registry, stability

    def counter(self, name: str, text: str, *labels: str) -> Callable[..., Counter | Gauge]:
        """Make a counter; returns what takes its labels' values, and returns the series to increase."""
        made: Counter | Gauge
        if name.endswith(TOTAL):
            made = Counter(name, self._text(text), labels, registry=self._registry)
        else:
            assert name in PLAIN_COUNTERS, name
            made = Gauge(name, self._text(text), labels, registry=self._registry)
        return made.labels if labels else lambda: made

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Make a gauge."""
        return Gauge(name, self._text(text), labels, registry=self._registry)

    def histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = BUCKETS) -> Histogram:
        """Make a histogram."""
        return Histogram(name, self._text(text), labels, registry=self._registry, buckets=buckets)

    def _text(self, text: str) -> str:
        return f"[{self._stability}] {text}"


def rendered(registry: CollectorRegistry) -> bytes:
    """Return all metrics in Prometheus' text format, as a kubelet writes it."""

    def typed(line: re.Match[bytes]) -> bytes:
        return b"# TYPE %s counter" % line[1] if line[1].decode() in PLAIN_COUNTERS else line[0]

    return _WHOLE_BOUND.sub(rb'le="\1"', _PLAIN_TYPE.sub(typed, generate_latest(registry)))
