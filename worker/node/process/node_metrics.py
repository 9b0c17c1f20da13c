"""Metrics of the node process: requests to its API, its certificates, its calls. Does not use Temporal.

Available to all parts as `NodeDependencies.metrics`; `worker/api/endpoints/metrics.py` merges them with those of worker and
poller.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from activities.machine.cgroup_hierarchies import Hierarchies
from worker.daemon.version import kubelet_version
from worker.machine.boot_time import boot_time
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.healthz import ALWAYS_OK, SYNC_LOOP
from worker.settings.kubelet.feature_gates import FeatureGates
from worker.telemetry.call_metrics import ApiCallMetrics, RuntimeCallMetrics, process_registry
from worker.telemetry.exposition import render, single_sample
from worker.telemetry.kubelet.families import Families, rendered
from worker.telemetry.kubelet.release import show_release

_LABELS: Final = ("method", "path", "server_type", "long_running")
_POD_RESOURCES: Final = {"list": "List", "get_allocatable": "GetAllocatableResources", "get": "Get"}
_RENEW_ERRORS: Final = {
    "client": "kubelet_certificate_manager_client_expiration_renew_errors",
    "server": "kubelet_server_expiration_renew_errors",
}


class NodeMetrics:
    """Metrics of one node process; used from its event loop."""

    def __init__(self, node: str = "", gates: FeatureGates | None = None) -> None:
        """Take the node's name, and its feature gates."""
        self._registry = process_registry(node)
        self._slis = CollectorRegistry()
        self._made = Families(self._registry)
        self._made.gauge("kubelet_cgroup_version", "cgroup version on the hosts.").set(
            2 if Hierarchies.of_this_node().v2 else 1
        )
        self.runtime_operation = RuntimeCallMetrics(self._registry)
        self.api_request = ApiCallMetrics(self._registry)
        self._make_requests()
        self._make_pod_resources()
        self._make_checks()
        self._make_startup()
        self._volume_seconds = self._made.histogram(
            "kubelet_volume_metric_collection_duration_seconds",
            "Duration in seconds to calculate volume stats",
            "metric_source",
        )
        show_release(self._registry, kubelet_version(), gates or FeatureGates())

    def _make_startup(self) -> None:
        """Add the stages of the start (pkg/kubelet/util/node_startup_latency_tracker.go)."""
        self._began, self._asked, self._registered, self._is_ready = time.time(), 0.0, 0.0, False
        stage = "kubelet_node_startup_{}duration_seconds"
        text, made = "Duration in seconds of node startup {}.", self._made
        made.gauge(stage.format("pre_kubelet_"), text.format("before kubelet starts")).set(self._began - boot_time())
        self._before_registration = made.gauge(stage.format("pre_registration_"), text.format("before registration"))
        self._registration = made.gauge(stage.format("registration_"), text.format("during registration"))
        self._after_registration = made.gauge(stage.format("post_registration_"), text.format("after registration"))
        self._startup = made.gauge(stage.format(""), text.format("in total"))

    def volume_measured(self, source: str, seconds: float) -> None:
        """Count the measuring of a volume, by what measured it; may be called from any thread."""
        self._volume_seconds.labels(source).observe(seconds)

    def _make_requests(self) -> None:
        made = self._made
        self._requests = made.counter(
            "kubelet_http_requests_total", "Number of the http requests received since the server started", *_LABELS
        )
        self._request_seconds = made.histogram(
            "kubelet_http_requests_duration_seconds",
            "Duration in seconds to serve http requests",
            *_LABELS,
        )
        self._in_flight = made.gauge("kubelet_http_inflight_requests", "Number of the inflight http requests", *_LABELS)

    def _make_pod_resources(self) -> None:
        name, version = "kubelet_pod_resources_endpoint_{}", "server_api_version"
        broken_down = "Broken down by server api version."
        self._pod_resources = self._made.counter(
            name.format("requests_total"),
            f"Cumulative number of requests to the PodResource endpoint. {broken_down}",
            version,
        )
        self._pod_resources_of = {
            (method, failed): self._made.counter(
                name.format(f"{'errors' if failed else 'requests'}_{method}"),
                f"Number of requests to the PodResource {endpoint} endpoint{' which returned error' if failed else ''}. "
                f"{broken_down}",
                version,
            )
            for method, endpoint in _POD_RESOURCES.items()
            for failed in (False, True)
        }

    def pod_resources_request(self, version: str, method: str = "", *, failed: bool = False) -> None:
        """Count a request to PodResources, or that it failed; v1alpha1 has no count of its method."""
        if not failed:
            self._pod_resources(version).inc()
        if method:
            self._pod_resources_of[method, failed](version).inc()

    def _make_checks(self) -> None:
        self._healthy = Gauge("kubernetes_healthcheck", "1: the check succeeds.", ["name", "type"], registry=self._slis)
        self._checks = Counter(
            "kubernetes_healthchecks_total", "Checks, by outcome.", ["name", "type", "status"], registry=self._slis
        )

    @contextmanager
    def request(self, method: str, path: str, *, read_only: bool, long_running: bool) -> Iterator[None]:
        """Count a request while it is answered; `path` is a row's, so that clients cannot create series."""
        values = (method, path, "readonly" if read_only else "readwrite", str(long_running).lower())
        self._requests(*values).inc()
        self._in_flight.labels(*values).inc()
        start = time.perf_counter()
        try:
            yield
        finally:
            self._in_flight.labels(*values).dec()
            self._request_seconds.labels(*values).observe(time.perf_counter() - start)

    def node_registering(self) -> None:
        """Record that the node's registration is tried; only the first call counts."""
        if not self._asked:
            self._asked = time.time()
            self._before_registration.set(self._asked - self._began)

    def node_registered(self) -> None:
        """Record the node's registration; only the first call counts."""
        if not self._registered:
            self._registered = time.time()
            self._registration.set(self._registered - self._asked)

    def node_ready(self) -> None:
        """Record that the API shows the node as ready; only the first call counts."""
        if self._registered and not self._is_ready:
            self._is_ready, now = True, time.time()
            self._after_registration.set(now - self._registered)
            self._startup.set(now - boot_time())

    def render(self, certificates: Mapping[str, CertificateFacts]) -> str:
        """Return all metrics but the checks in Prometheus' text format."""
        return rendered(self._registry).decode() + certificate_text(certificates, datetime.now(UTC))

    def render_slis(self, reason: str) -> bytes:
        """Record one check and return the checks (/metrics/slis); `reason` is what is wrong, or ""."""
        for name, fine in (dict.fromkeys(ALWAYS_OK, True) | {SYNC_LOOP: not reason}).items():
            self._healthy.labels(name, "healthz").set(fine)
            self._checks.labels(name, "healthz", "success" if fine else "error").inc()
        return generate_latest(self._slis)


def certificate_text(certificates: Mapping[str, CertificateFacts], now: datetime) -> str:
    """Return remaining lifetimes and renewal errors of the node's certificates (kubelet/certificate/kubelet.go).

    A certificate that the node does not rotate has no series; a missing one has no lifetime.
    """
    families = []
    for which, errors in _RENEW_ERRORS.items():
        if (facts := certificates.get(which)) is None:
            continue
        prefix = f"kubelet_certificate_manager_{which}"
        if facts.not_after is not None:
            left = (facts.not_after - now).total_seconds()
            families.append(
                single_sample(f"{prefix}_ttl_seconds", f"Seconds until the {which} certificate ends.", "gauge", left)
            )
        families.append(
            single_sample(errors, "[ALPHA] Counter of certificate renewal errors.", "counter", facts.renew_errors)
        )
        if facts.lived is not None:
            lived = facts.lived.total_seconds()
            families.append(
                single_sample(f"{prefix}_rotation_seconds", "How old the one before had become.", "gauge", lived)
            )
    return render(families).decode()
