"""Does one address serve the kubelet's metrics, ours and the SDK's, and does /healthz report a stuck loop?"""

import asyncio
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.patience import PATIENCE
from worker.endpoints.server import Address, Answer, Endpoint, healthz
from worker.telemetry.call_metrics import operation_type
from worker.telemetry.metrics import Metrics
from worker.temporal.temporal_client import TemporalSettings, connect

ANYWHERE = Address("127.0.0.1", 0)


@pytest.fixture
def metrics() -> Metrics:
    """Return the metrics of a node."""
    return Metrics("node-1")


@pytest.fixture
def endpoint(metrics: Metrics) -> Iterator[Endpoint]:
    """Serve the metrics while the test runs."""
    served = Endpoint(ANYWHERE, {"/metrics": metrics.route, "/metrics/probes": metrics.probes_route}).start()
    yield served
    served.close()


def get(endpoint: Endpoint, path: str) -> tuple[int, str]:
    """Request a path; returns status and text."""
    try:
        with urllib.request.urlopen(f"http://{endpoint.address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[str, float]:
    """Parse the text format; each sample by its name and labels."""
    return {
        sample.name + "".join(f"{{{name}={value}}}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param("RunPodSandbox", "run_podsandbox", id="run"),
        pytest.param("PodSandboxStatus", "podsandbox_status", id="sandbox-status"),
        pytest.param("ListPodSandbox", "list_podsandbox", id="list"),
        pytest.param("CreateContainer", "create_container", id="create"),
        pytest.param("ImageStatus", "image_status", id="image-status"),
        pytest.param("Version", "version", id="version"),
    ],
)
def test_cri_calls_have_the_kubelets_names(call: str, name: str) -> None:
    """kuberuntime/instrumented_services.go."""
    assert operation_type(call) == name


def test_what_was_counted_is_read(metrics: Metrics, endpoint: Endpoint) -> None:
    """The names that the kubelet's dashboards and alerts use."""
    metrics.runtime_operation("RunPodSandbox", 0.2, failed=False)
    metrics.runtime_operation("RunPodSandbox", 0.3, failed=True)
    metrics.pod_started(0.4)
    metrics.running(2, {"running": 3, "exited": 1}, 4)
    metrics.relists.relisted(0.01)
    metrics.relists.relisted(0.01)
    metrics.relists.event_stream(opened=True)
    metrics.relists.event_stream(opened=False)
    metrics.hint("sent")
    metrics.manifests_refused(1)
    metrics.history(700, 1000)
    status, text = get(endpoint, "/metrics")
    read = samples(text)
    assert status == 200
    expected = {
        "kubelet_node_name{node=node-1}": 1,
        "kubelet_runtime_operations_total{operation_type=run_podsandbox}": 2,
        "kubelet_runtime_operations_errors_total{operation_type=run_podsandbox}": 1,
        "kubelet_runtime_operations_duration_seconds_count{operation_type=run_podsandbox}": 2,
        "kubelet_pod_start_duration_seconds_bucket{le=0.5}": 1,
        "kubelet_running_pods": 2,
        "kubelet_managed_ephemeral_containers": 4,
        "kubelet_running_containers{container_state=running}": 3,
        "kubelet_running_containers{container_state=exited}": 1,
        "kubelet_pleg_relist_duration_seconds_count": 2,
        "kubelet_pleg_relist_interval_seconds_count": 1,
        "kubelet_evented_pleg_connection_success_count_total": 1,  # the parser adds _total to a counter's name
        "kubelet_evented_pleg_connection_error_count_total": 1,
        "tempolet_hints_total{outcome=sent}": 1,
        "tempolet_refused_manifests": 1,
        "tempolet_history_database_bytes": 700,
        "tempolet_history_database_limit_bytes": 1000,
    }
    assert {name: read.get(name) for name in expected} == expected
    assert read["kubelet_pleg_last_seen_seconds"] == pytest.approx(time.time(), abs=60)
    assert read["process_resident_memory_bytes"] > 0


def test_probes_stand_beside_the_rest(metrics: Metrics, endpoint: Endpoint) -> None:
    """As on a kubelet, whose scrapers expect them there; a process without probes has none."""
    assert get(endpoint, "/metrics/probes") == (200, "")
    metrics.on_probes_read(lambda: b"prober_probe_total 1\n")
    assert get(endpoint, "/metrics/probes") == (200, "prober_probe_total 1\n")


async def test_the_sdks_numbers_stand_beside_ours(
    settings: TemporalSettings, metrics: Metrics, endpoint: Endpoint
) -> None:
    """One address for both."""
    client = await connect(settings, runtime=metrics.sdk_runtime(served=True))
    assert await client.service_client.check_health()
    status, text = await asyncio.to_thread(get, endpoint, "/metrics")
    read = samples(text)
    assert status == 200
    assert read["tempolet_sdk_metrics_up"] == 1
    assert any(name.startswith("temporal_request_total") for name in read)
    assert "kubelet_node_name{node=node-1}" in read


def test_the_sdks_absence_hides_nothing(metrics: Metrics, endpoint: Endpoint) -> None:
    """That the SDK does not answer is a metric too."""
    metrics.sdk_runtime(served=True)  # closed again at once: nobody keeps it
    metrics._sdk = Address("127.0.0.1", 1)
    read = samples(get(endpoint, "/metrics")[1])
    assert read["tempolet_sdk_metrics_up"] == 0
    assert "kubelet_node_name{node=node-1}" in read


@pytest.mark.parametrize(
    "path", ["/", "/metrics/", "/healthz", "/%2e%2e/metrics", "/debug/pprof/", "/exec/a/b/c", "/pods", "/configz"]
)
def test_other_paths_are_not_found(endpoint: Endpoint, path: str) -> None:
    """Only what it serves."""
    assert get(endpoint, path)[0] == 404


async def asked(check: str | Exception) -> tuple[int, str]:
    """Request /healthz of a process whose check returns this."""

    async def answer() -> str:
        if isinstance(check, Exception):
            raise check
        return check

    served = Endpoint(ANYWHERE, {"/healthz": healthz(answer, asyncio.get_running_loop())}).start()
    try:
        return await asyncio.to_thread(get, served, "/healthz")
    finally:
        served.close()


async def test_a_healthy_process_says_ok() -> None:
    """As the kubelet."""
    assert await asked("") == (200, "ok")


@pytest.mark.parametrize("check", [pytest.param("stuck on X", id="reason"), pytest.param(KeyError("X"), id="raises")])
async def test_an_unhealthy_process_says_why(check: str | Exception) -> None:
    """500 and the reason."""
    status, text = await asked(check)
    assert status == 500
    assert "X" in text


async def test_a_stuck_loop_is_told_by_another_thread() -> None:
    """The response comes while the loop is still blocked."""

    async def fine() -> str:
        return ""

    served = Endpoint(ANYWHERE, {"/healthz": healthz(fine, asyncio.get_running_loop())}).start()
    answers: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: answers.append(get(served, "/healthz")))
    asking.start()
    asking.join(PATIENCE)  # blocks the loop, which is the planted fault
    served.close()
    assert answers
    assert answers[0][0] == 500
    assert "event loop has not answered" in answers[0][1]


def test_a_failing_route_is_an_answer_and_no_more() -> None:
    """The error is in the log, not in the response."""

    def fail(_: object) -> Answer:
        raise RuntimeError("secret")

    served = Endpoint(ANYWHERE, {"/x": fail}).start()
    try:
        status, text = get(served, "/x")
    finally:
        served.close()
    assert status == 500
    assert "secret" not in text


def test_a_closed_endpoint_gives_its_port_back() -> None:
    """The next one can listen at once."""
    first = Endpoint(ANYWHERE, {}).start()
    assert get(first, "/")[0] == 404
    first.close()
    second = Endpoint(first.address, {}).start()
    second.close()
