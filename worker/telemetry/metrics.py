"""Metrics of worker and poller for Prometheus: ours, followed by those of Temporal's SDK.

Each process creates one `Metrics`, which serves /metrics as `Metrics.route`. Names are the kubelet's where it has the same
metric, because dashboards and alerts use them; others begin with `tempolet_`. The SDK's core keeps its metrics outside Python
and serves them on a loopback port. They are fetched on request, which costs nothing in between (its MetricBuffer would have to
be drained continuously).
"""

import http.client
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig

from activities.execution.timings import Timings
from worker.endpoints.server import Address, Answer, Request
from worker.telemetry.call_metrics import ApiCallMetrics, RuntimeCallMetrics, process_registry
from worker.telemetry.image_metrics import ImageMetrics
from worker.telemetry.workflow_engine import WorkflowEngine

_LOOPBACK: Final = "127.0.0.1"
_SDK_LIMIT: Final = 3.0  # seconds
# the kubelet's buckets, pkg/kubelet/metrics/metrics.go
_POD_START_BUCKETS: Final = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)  # fmt: skip
_VOLUME_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
_EVENT_STREAM: Final = "kubelet_evented_pleg_connection"
"""Gauges, because the library adds _total to a counter's name, which the kubelet's does not have."""


class Metrics:
    """The metrics of one process; every method may be called from any thread."""

    def __init__(self, node: str) -> None:
        self._registry = process_registry(node)
        self._sdk: Address | None = None
        self._last_relist: float | None = None
        self._refresh: Callable[[], None] | None = None
        self._probes: Callable[[], bytes] | None = None
        self.runtime_operation = RuntimeCallMetrics(self._registry)
        self.api_request = ApiCallMetrics(self._registry)
        self._make_pods()
        self._make_steps()
        self._make_logs()
        self._make_pleg()
        self._make_hints()
        self._make_history()
        self._make_tickets()
        self.images = ImageMetrics(self._registry)

    def _make_pods(self) -> None:
        self._running_pods = self._gauge("kubelet_running_pods", "Pods with a ready sandbox.")
        self._ephemeral = self._gauge(
            "kubelet_managed_ephemeral_containers", "Ephemeral containers of this node's pods."
        )
        self._running_containers = self._gauge("kubelet_running_containers", "Containers by state.", "container_state")
        self._pod_start_seconds = self._histogram(
            "kubelet_pod_start_duration_seconds",
            "From the time a pod was first seen until it first ran.",
            _POD_START_BUCKETS,
        )
        self._refused_manifests = self._gauge("tempolet_refused_manifests", "Manifest files that are refused now.")

    def _make_steps(self) -> None:
        self._pod_work_seconds = self._histogram(
            "kubelet_pod_worker_duration_seconds",
            "How long pods took to start (create) and to terminate (kill).",
            Histogram.DEFAULT_BUCKETS,
            "operation_type",
        )
        self._cgroup_seconds = self._histogram(
            "kubelet_cgroup_manager_duration_seconds",
            "How long operations on the pods' cgroups took.",
            Histogram.DEFAULT_BUCKETS,
            "operation_type",
        )
        self._volume_seconds = self._histogram(
            "storage_operation_duration_seconds",
            "How long operations on volumes took.",
            _VOLUME_BUCKETS,
            *("volume_plugin", "operation_name", "status", "migrated"),
        )
        self._volume_errors = self._counter(
            "storage_operation_errors_total", "Operations on volumes that failed.", "volume_plugin", "operation_name"
        )

    def _make_logs(self) -> None:
        self._log_rotations = self._counter(
            "tempolet_container_log_rotations_total", "Container logs that were full, by outcome.", "outcome"
        )

    def _make_pleg(self) -> None:
        self._relist_seconds = self._histogram("kubelet_pleg_relist_duration_seconds", "How long a relist took.")
        self._relist_interval = self._histogram(
            "kubelet_pleg_relist_interval_seconds",
            "The time between two relists.",
            (*Histogram.DEFAULT_BUCKETS[:-1], 30, 60, 300),
        )
        self._last_seen = self._gauge(
            "kubelet_pleg_last_seen_seconds", "When the runtime was last listed or sent an event."
        )
        self._stream_opened = self._gauge(f"{_EVENT_STREAM}_success_count", "Event streams that were opened.")
        self._stream_lost = self._gauge(f"{_EVENT_STREAM}_error_count", "Event streams that broke or did not open.")

    def _make_hints(self) -> None:
        self._hints = self._counter("tempolet_hints_total", "Hints to workflows, by outcome.", "outcome")

    def _make_tickets(self) -> None:
        self._refused_activities = self._counter(
            "tempolet_refused_activities_total", "Activities that this node has not asked for, and did not do."
        )

    def _make_history(self) -> None:
        self._replayed = self._counter(
            "tempolet_replayed_histories_total",
            "Open histories that were replayed before the worker took tasks, because its code had changed.",
            "finding",
        )
        self._history_bytes = self._gauge(
            "tempolet_history_database_bytes", "Bytes of the database of histories that are in use."
        )
        self._history_limit = self._gauge("tempolet_history_database_limit_bytes", "The limit of that database.")

    def activity_refused(self) -> None:
        """Count an activity that was refused for its ticket."""
        self._refused_activities.inc()

    def show_workflow_engine(self, engine: Callable[[], WorkflowEngine | None]) -> None:
        """Show from now on whether Temporal is available; `engine` is called at each read, in any thread."""

        def available() -> float:
            return float((told := engine()) is None or told.away_since is None)

        def led() -> float:
            return float(told.pods_led if (told := engine()) else 0)

        def kept() -> float:
            return float(told.pods_kept if (told := engine()) else 0)

        name = "tempolet_workflow_engine_available"
        self._gauge(name, "1: Temporal takes what is due, as far as the worker knows; 0: it is away.").set_function(
            available
        )
        self._gauge("tempolet_pods_led_without_temporal", "Pods that this node leads itself.").set_function(led)
        what = "Pods among them whose own workflows failed again after a hand-back, so that they are tried seldom."
        self._gauge("tempolet_pods_kept_from_temporal", what).set_function(kept)

    def show_shutdowns(self) -> Callable[[float, float], None]:
        """Return what sets the times of the last graceful shutdown; from now on they are shown."""
        start, end = (
            self._gauge(
                f"kubelet_graceful_shutdown_{one}_time_seconds",
                f"Last graceful shutdown {one} time since unix epoch in seconds",
            )
            for one in ("start", "end")
        )

        def show(begun: float, ended: float) -> None:
            start.set(begun)
            end.set(ended)

        return show

    def history_replayed(self, finding: str) -> None:
        """Count what was found of an open history."""
        self._replayed.labels(finding).inc()

    def history(self, used: int, limit: int) -> None:
        """Show the size of the database of histories and its limit."""
        self._history_bytes.set(used)
        self._history_limit.set(limit)

    def pod_started(self, seconds: float) -> None:
        """Count a pod that runs for the first time, and the time since it was first seen."""
        self._pod_start_seconds.observe(seconds)
        self._pod_work_seconds.labels("create").observe(seconds)

    def pod_ended(self, seconds: float) -> None:
        """Count a pod that has terminated, and the time since its termination began."""
        self._pod_work_seconds.labels("kill").observe(seconds)

    def timings(self) -> Timings:
        """Return the callbacks by which activities report durations of volume and cgroup operations."""
        return Timings(
            self._volume_took, lambda operation, seconds: self._cgroup_seconds.labels(operation).observe(seconds)
        )

    def _volume_took(self, plugin: str, operation: str, seconds: float, failed: bool) -> None:  # noqa: FBT001 - Timings' signature
        self._volume_seconds.labels(plugin, operation, "fail-unknown" if failed else "success", "false").observe(
            seconds
        )
        if failed:
            self._volume_errors.labels(plugin, operation).inc()

    def running(self, pods: int, containers: Mapping[str, int], ephemeral: int = 0) -> None:
        """Set the numbers of running pods, of containers by the kubelet's states, and of ephemeral containers."""
        self._running_pods.set(pods)
        self._ephemeral.set(ephemeral)
        for state, count in containers.items():
            self._running_containers.labels(state).set(count)

    def manifests_refused(self, count: int) -> None:
        """Set how many manifest files are refused."""
        self._refused_manifests.set(count)

    def log_rotated(self, *, failed: bool) -> None:
        """Count a log rotation, successful or failed."""
        self._log_rotations.labels("failed" if failed else "rotated").inc()

    def relisted(self, seconds: float) -> None:
        """Count one relist of the runtime and its duration."""
        now = time.monotonic()
        self._relist_seconds.observe(seconds)
        if self._last_relist is not None:
            self._relist_interval.observe(now - self._last_relist)
        self._last_relist = now
        self._last_seen.set_to_current_time()

    def event_stream(self, *, opened: bool) -> None:
        """Count an event stream that was opened, or one that broke."""
        (self._stream_opened if opened else self._stream_lost).inc()

    def event_received(self) -> None:
        """Note that the runtime sent an event just now."""
        self._last_seen.set_to_current_time()

    def hint(self, outcome: str) -> None:
        """Count a hint by outcome: found, and then sent, known (not new any more), late (its workflow has ended) or failed.

        One that was found and has no other outcome was merged into another.
        """
        self._hints.labels(outcome).inc()

    def on_read(self, refresh: Callable[[], None]) -> None:
        """Set a function that updates gauges (`running`) before each read; called in any thread."""
        self._refresh = refresh

    def sdk_runtime(self, *, served: bool, logging: LoggingConfig | None = None) -> Runtime:
        """Create the SDK's runtime for this process; with `served`, its metrics become part of /metrics."""
        chosen = LoggingConfig.default if logging is None else logging
        if not served:
            return Runtime(telemetry=TelemetryConfig(logging=chosen))
        self._sdk = Address(_LOOPBACK, _free_port())
        prometheus = PrometheusConfig(
            bind_address=str(self._sdk), counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True
        )
        return Runtime(telemetry=TelemetryConfig(logging=chosen, metrics=prometheus))

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        if self._refresh is not None:
            self._refresh()
        return generate_latest(self._registry) + self._sdk_text()

    def on_probes_read(self, text: Callable[[], bytes]) -> None:
        """Set the function that renders probe metrics; called in any thread."""
        self._probes = text

    def render_probes(self) -> bytes:
        """Return probe metrics in Prometheus' text format; empty in a process without probes."""
        return self._probes() if self._probes is not None else b""

    def route(self, request: Request) -> Answer:
        """Answer GET /metrics."""
        return _answer(request, self.render)

    def probes_route(self, request: Request) -> Answer:
        """Answer GET /metrics/probes."""
        return _answer(request, self.render_probes)

    def _sdk_text(self) -> bytes:
        if self._sdk is None:
            return b""
        connection = http.client.HTTPConnection(self._sdk.host, self._sdk.port, timeout=_SDK_LIMIT)
        try:
            connection.request("GET", "/metrics")
            text, up = connection.getresponse().read(), 1
        except (OSError, http.client.HTTPException):
            text, up = b"", 0
        finally:
            connection.close()
        return text + f"# TYPE tempolet_sdk_metrics_up gauge\ntempolet_sdk_metrics_up {up}\n".encode()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...] = Histogram.DEFAULT_BUCKETS, *labels: str
    ) -> Histogram:
        return Histogram(name, text, labels, registry=self._registry, buckets=buckets)


def _answer(request: Request, text: Callable[[], bytes]) -> Answer:
    if request.method not in {"GET", "HEAD"}:
        return Answer(405, b"GET", headers={"Allow": "GET"})
    return Answer(body=text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _free_port() -> int:
    """Find a free port for the SDK's server, which does not report the one it chose."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
