"""Metrics of the node process: requests to its API, its certificates, its calls. Does not use Temporal.

Available to all parts as `NodeDependencies.metrics`; `worker/api/endpoints/metrics.py` merges them with those of worker and
poller.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from activities.machine.cgroup_hierarchies import Hierarchies
from worker.machine.boot_time import boot_time
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.healthz import ALWAYS_OK, SYNC_LOOP
from worker.telemetry.call_metrics import ApiCallMetrics, RuntimeCallMetrics, process_registry
from worker.telemetry.exposition import render, single_sample

_LABELS: Final = ["method", "path", "server_type", "long_running"]
_RENEW_ERRORS: Final = {
    "client": "kubelet_certificate_manager_client_expiration_renew_errors",
    "server": "kubelet_server_expiration_renew_errors",
}


class NodeMetrics:
    """Metrics of one node process; used from its event loop."""

    def __init__(self, node: str = "") -> None:
        """Take the node's name."""
        self._registry = process_registry(node)
        self._slis = CollectorRegistry()
        self._gauge("kubelet_cgroup_version", "1 or 2.").set(2 if Hierarchies.of_this_node().v2 else 1)
        self.runtime_operation = RuntimeCallMetrics(self._registry)
        self.api_request = ApiCallMetrics(self._registry)
        self._make_requests()
        self._make_checks()
        self._make_startup()

    def _make_startup(self) -> None:
        """Add the startup stages that exist here: this process does nothing between its start and its registration."""
        self._began, self._is_registered = time.time(), False
        stage = "kubelet_node_startup_{}duration_seconds"
        self._gauge(stage.format("pre_kubelet_"), "From the machine's start to ours.").set(self._began - boot_time())
        self._before_registration = self._gauge(
            stage.format("pre_registration_"), "From our start to the registration."
        )
        self._startup = self._gauge(stage.format(""), "From the machine's start to the registration.")

    def _make_requests(self) -> None:
        self._requests = Counter(
            "kubelet_http_requests_total", "Requests to the node's API.", _LABELS, registry=self._registry
        )
        self._request_seconds = Histogram(
            "kubelet_http_requests_duration_seconds", "How long they took.", _LABELS, registry=self._registry
        )
        self._in_flight = self._gauge("kubelet_http_inflight_requests", "Requests that are being answered.", *_LABELS)

    def _make_checks(self) -> None:
        self._healthy = Gauge("kubernetes_healthcheck", "1: the check succeeds.", ["name", "type"], registry=self._slis)
        self._checks = Counter(
            "kubernetes_healthchecks_total", "Checks, by outcome.", ["name", "type", "status"], registry=self._slis
        )

    @contextmanager
    def request(self, method: str, path: str, *, read_only: bool, long_running: bool) -> Iterator[None]:
        """Count a request while it is answered; `path` is a row's, so that clients cannot create series."""
        values = (method, path, "readonly" if read_only else "readwrite", str(long_running).lower())
        self._requests.labels(*values).inc()
        self._in_flight.labels(*values).inc()
        start = time.perf_counter()
        try:
            yield
        finally:
            self._in_flight.labels(*values).dec()
            self._request_seconds.labels(*values).observe(time.perf_counter() - start)

    def node_registered(self) -> None:
        """Record the node's registration; only the first call counts."""
        if self._is_registered:
            return
        self._is_registered, now = True, time.time()
        self._before_registration.set(now - self._began)
        self._startup.set(now - boot_time())

    def render(self, certificates: Mapping[str, CertificateFacts]) -> str:
        """Return all metrics but the checks in Prometheus' text format."""
        return generate_latest(self._registry).decode() + certificate_text(certificates, datetime.now(UTC))

    def render_slis(self, reason: str) -> bytes:
        """Record one check and return the checks (/metrics/slis); `reason` is what is wrong, or ""."""
        for name, fine in (dict.fromkeys(ALWAYS_OK, True) | {SYNC_LOOP: not reason}).items():
            self._healthy.labels(name, "healthz").set(fine)
            self._checks.labels(name, "healthz", "success" if fine else "error").inc()
        return generate_latest(self._slis)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)


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
        families.append(single_sample(errors, "Renewals that failed.", "counter", facts.renew_errors))
        if facts.lived is not None:
            lived = facts.lived.total_seconds()
            families.append(
                single_sample(f"{prefix}_rotation_seconds", "How old the one before had become.", "gauge", lived)
            )
    return render(families).decode()
