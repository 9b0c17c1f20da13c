"""Metrics of a process and of its calls to the runtime and to the API server, under the kubelet's names.

Part of `Metrics` (worker, poller) and of `NodeMetrics`, which provide the registry; does not use Temporal.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from worker.daemon.troubles import TROUBLES
from worker.telemetry.kubelet.families import Families

# the kubelet's buckets, pkg/kubelet/metrics/metrics.go
_RUNTIME_BUCKETS: Final = tuple(0.005 * 2.5**step for step in range(14))
# client-go's, component-base/metrics/prometheus/restclient/metrics.go
_API_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


def process_registry(node: str) -> CollectorRegistry:
    """Return the registry of a process, with its memory, CPU time and its node's name."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which no dashboard of a kubelet knows
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(LoopCollector())
    Families(registry).gauge("kubelet_node_name", "The node's name. The count is always 1.", "node").labels(node).set(1)
    return registry


class LoopCollector(Collector):
    """The loops of this process that ever failed, by the process's own record."""

    def collect(self) -> Iterator[Metric]:
        """Yield how often each failed, and whether it fails now."""
        failures = CounterMetricFamily(
            "tempolet_loop_failures",
            "Unexpected failures of a loop or thread, after which it was restarted.",
            labels=["loop"],
        )
        failing = GaugeMetricFamily("tempolet_loop_failing", "1: it fails now; 0: it works again.", labels=["loop"])
        for loop, (count, now) in TROUBLES.failures().items():
            failures.add_metric([loop], count)
            failing.add_metric([loop], now)
        yield failures
        yield failing


class RuntimeCallMetrics:
    """CRI calls; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made, kind = Families(registry), "operation_type"
        self._calls = made.counter(
            "kubelet_runtime_operations_total", "Cumulative number of runtime operations by operation type.", kind
        )
        self._errors = made.counter(
            "kubelet_runtime_operations_errors_total",
            "Cumulative number of runtime operation errors by operation type.",
            kind,
        )
        self._seconds = made.histogram(
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations. Broken down by operation type.",
            kind,
            buckets=_RUNTIME_BUCKETS,
        )

    def __call__(self, call: str, seconds: float, *, failed: bool) -> None:
        """Count one CRI call by its CRI name."""
        kind = operation_type(call)
        self._calls(kind).inc()
        self._seconds.labels(kind).observe(seconds)
        if failed:
            self._errors(kind).inc()


class ApiCallMetrics:
    """Calls to the API server; a watch is counted when its response begins."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._calls = made.counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            *("code", "method", "host"),
        )
        self._seconds = made.histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            *("verb", "host"),
            buckets=_API_BUCKETS,
        )

    def __call__(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """Count one request; `code` None: there was no response."""
        self._calls("<error>" if code is None else str(code), method, host).inc()
        self._seconds.labels(method, host).observe(seconds)


def operation_type(call: str) -> str:
    """Return a CRI call's name in the kubelet's metrics: RunPodSandbox -> run_podsandbox."""
    joined = call.replace("PodSandbox", "Podsandbox")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in joined).lstrip("_")
