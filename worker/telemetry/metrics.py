"""Metrics of worker and poller for Prometheus: ours, followed by those of Temporal's SDK.

Each process creates one `Metrics`, which serves /metrics as `Metrics.route`. Names are the kubelet's where it has the same
metric, because dashboards and alerts use them; others begin with `tempolet_`. The SDK's core keeps its metrics outside Python
and serves them on a loopback port. They are fetched on request, which costs nothing in between (its MetricBuffer would have to
be drained continuously).
"""

import http.client
import socket
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import Counter, Gauge
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig

from activities.execution.timings import Timings
from worker.endpoints.server import Address, Answer, Request
from worker.telemetry.call_metrics import ApiCallMetrics, RuntimeCallMetrics, process_registry
from worker.telemetry.image_metrics import ImageMetrics
from worker.telemetry.kubelet.dra import DraCounts
from worker.telemetry.kubelet.evictions import EvictionCounts
from worker.telemetry.kubelet.families import Families, rendered
from worker.telemetry.kubelet.operations import OperationTimes
from worker.telemetry.kubelet.pod_certificates import PodCertificateStates
from worker.telemetry.kubelet.pods import START_BUCKETS, PodCounts
from worker.telemetry.kubelet.relists import RelistTimes
from worker.telemetry.kubelet.resizes import ResizeCounts
from worker.telemetry.kubelet.resource_managers import ResourceManagerCounts
from worker.telemetry.kubelet.selinux import LabelCounts
from worker.telemetry.kubelet.steps import StepCounts
from worker.telemetry.workflow_engine import WorkflowEngine

_LOOPBACK: Final = "127.0.0.1"
_SDK_LIMIT: Final = 3.0  # seconds


class Metrics:
    """The metrics of one process; every method may be called from any thread."""

    def __init__(self, node: str) -> None:
        self._registry = process_registry(node)
        self._sdk: Address | None = None
        self._refresh: Callable[[], None] | None = None
        self._probes: Callable[[], bytes] | None = None
        self.runtime_operation = RuntimeCallMetrics(self._registry)
        self.api_request = ApiCallMetrics(self._registry)
        self._made = Families(self._registry)
        self.pods = PodCounts(self._registry)
        self.steps = StepCounts(self._registry)
        self.operations = OperationTimes(self._registry)
        self.evictions = EvictionCounts(self._registry)
        self.relists = RelistTimes(self._registry)
        self.resizes = ResizeCounts(self._registry)
        self.dra = DraCounts(self._registry)
        self.resource_managers = ResourceManagerCounts(self._registry)
        self.pod_certificates = PodCertificateStates(self._registry)
        self.labels = LabelCounts(self._registry)
        self._make_pods()
        self._make_logs()
        self._make_hints()
        self._make_history()
        self._make_tickets()
        self.images = ImageMetrics(self._registry)

    def _make_pods(self) -> None:
        made = self._made
        self._running_pods = made.gauge("kubelet_running_pods", "Number of pods that have a running pod sandbox")
        self._ephemeral = made.gauge(
            "kubelet_managed_ephemeral_containers",
            "Current number of ephemeral containers in pods managed by this kubelet.",
        )
        self._running_containers = made.gauge(
            "kubelet_running_containers", "Number of containers currently running", "container_state"
        )
        self._pod_start_seconds = made.histogram(
            "kubelet_pod_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
            buckets=START_BUCKETS,
        )
        self._pod_work_seconds = made.histogram(
            "kubelet_pod_worker_duration_seconds",
            "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
            "operation_type",
        )
        self._shutdown_begun, self._shutdown_ended = (
            made.gauge(
                f"kubelet_graceful_shutdown_{one}_time_seconds",
                f"Last graceful shutdown {one} time since unix epoch in seconds",
            )
            for one in ("start", "end")
        )
        self._preemptions = made.counter(
            "kubelet_preemptions",
            "Cumulative number of pod preemptions by preemption resource",
            "preemption_signal",
        )
        self._refused_manifests = self._gauge("tempolet_refused_manifests", "Manifest files that are refused now.")

    def _make_logs(self) -> None:
        self._log_rotations = self._counter(
            "tempolet_container_log_rotations_total", "Container logs that were full, by outcome.", "outcome"
        )

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

    def shut_down(self, begun: float, ended: float) -> None:
        """Set when the last graceful shutdown began and ended, in seconds since 1970."""
        self._shutdown_begun.set(begun)
        self._shutdown_ended.set(ended)

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
        """Return the callbacks by which activities report what took how long."""
        times, counts = self.operations, self.steps
        return Timings(
            volume=times.volume,
            csi=times.csi,
            cgroup=times.cgroup,
            sandbox=counts.sandbox,
            image_removed=counts.image_removed,
            labelled=self.labels.labelled,
            hook_fell_back=counts.hook_fell_back,
            sleep_ended_early=counts.sleep_ended_early,
        )

    def running(self, pods: int, containers: Mapping[str, int], ephemeral: int = 0) -> None:
        """Set the numbers of running pods, of containers by the kubelet's states, and of ephemeral containers."""
        self._running_pods.set(pods)
        self._ephemeral.set(ephemeral)
        for state, count in containers.items():
            self._running_containers.labels(state).set(count)

    def manifests_refused(self, count: int) -> None:
        """Set how many manifest files are refused."""
        self._refused_manifests.set(count)

    def preempted(self, resource: str) -> None:
        """Count a pod that was stopped for a critical one, by the resource that was lacking."""
        self._preemptions(resource).inc()

    def log_rotated(self, *, failed: bool) -> None:
        """Count a log rotation, successful or failed."""
        self._log_rotations.labels("failed" if failed else "rotated").inc()

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
        return rendered(self._registry) + self._sdk_text()

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
