"""Does the merged text have each heading and each series once, with the process where it matters?"""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proto.temporal.activities.requests import RuntimeContainer, StartContainer
from proto.temporal.pod import ContainerState, PodKey
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.node_metrics import NodeMetrics
from worker.telemetry.exposition import Family, escaped, parse_families, render, with_labels
from worker.telemetry.kubelet.steps import REGULAR
from worker.telemetry.merged_metrics import merged_families, owner_of
from worker.telemetry.metrics import Metrics


def text(name: str, kind: str, *lines: str) -> str:
    """Format a family."""
    return "".join(f"{line}\n" for line in (f"# HELP {name} What it is.", f"# TYPE {name} {kind}", *lines))


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        pytest.param("process_resident_memory_bytes", "", id="memory"),
        pytest.param("kubelet_runtime_operations_total", "", id="cri"),
        pytest.param("rest_client_requests_total", "", id="api"),
        pytest.param("temporal_request_total", "", id="sdk"),
        pytest.param("kubelet_node_name", "node", id="name"),
        pytest.param("kubelet_certificate_manager_client_ttl_seconds", "node", id="certificate"),
        pytest.param("kubelet_pleg_relist_interval_seconds", "poller", id="pleg"),
        pytest.param("tempolet_refused_manifests", "poller", id="manifests"),
        pytest.param("kubelet_running_pods", "worker", id="pods"),
        pytest.param("kubelet_preemptions", "poller", id="preemptions"),
        pytest.param("kubelet_pod_infeasible_resizes_total", "poller", id="resizes-are-decided-by-the-poller"),
        pytest.param("kubelet_pod_resize_duration_milliseconds", "worker", id="and-carried-out-by-the-worker"),
        pytest.param("storage_operation_duration_seconds", "worker", id="storage"),
    ],
)
def test_who_knows(name: str, owner: str) -> None:
    """The join key of every alert has one series, memory has three."""
    assert owner_of(name) == owner


def test_what_each_counts_says_whose_it_is() -> None:
    """Not summed: a sum would fall when one restarts, and every rate with it."""
    found = merged_families(
        {
            "worker": text("process_open_fds", "gauge", "process_open_fds 3.0"),
            "node": text("process_open_fds", "gauge", "process_open_fds 5.0"),
        }
    )
    assert render(found).decode().splitlines() == [
        "# HELP process_open_fds What it is.",
        "# TYPE process_open_fds gauge",
        'process_open_fds{process="worker"} 3.0',
        'process_open_fds{process="node"} 5.0',
    ]


def test_what_another_says_of_somebody_elses_is_dropped() -> None:
    """The poller knows of no pods, and would report 0."""
    found = merged_families(
        {
            "poller": text("kubelet_running_pods", "gauge", "kubelet_running_pods 0.0"),
            "worker": text("kubelet_running_pods", "gauge", "kubelet_running_pods 110.0"),
        }
    )
    assert render(found).decode().splitlines()[2:] == ["kubelet_running_pods 110.0"]


def test_three_real_processes_give_one_readable_text() -> None:
    """Prometheus' parser accepts it; no series is there twice, whatever the processes register."""
    worker, poller, own = Metrics("n"), Metrics("n"), NodeMetrics("n")
    for one in (worker, poller):
        one.runtime_operation("Version", 0.1, failed=False)
        one.api_request("GET", "api:6443", 200, 0.1)
    own.api_request("GET", "api:6443", None, 0.1)
    told = render(
        merged_families(
            {"worker": worker.render().decode(), "poller": poller.render().decode(), "node": own.render({})}
        )
    ).decode()
    families = [one.name for one in text_string_to_metric_families(told)]
    assert len(families) == len(set(families))
    series = [line.rpartition(" ")[0] for line in told.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    assert series.count('kubelet_node_name{node="n"}') == 1
    assert 'rest_client_requests_total{process="node",code="<error>",host="api:6443",method="GET"}' in series
    assert {
        f'kubelet_runtime_operations_total{{process="{one}",operation_type="version"}}' for one in ("worker", "poller")
    } <= set(series)


@pytest.mark.parametrize(
    ("line", "with_label"),
    [
        pytest.param("a 1", 'a{p="w"} 1', id="none"),
        pytest.param('a{b="{ }"} 1 2', 'a{p="w",b="{ }"} 1 2', id="some"),
        pytest.param("a{} 1", 'a{p="w"} 1', id="empty"),
    ],
)
def test_labels_are_added(line: str, with_label: str) -> None:
    """Before its own."""
    assert with_labels(line, 'p="w"') == with_label


def test_a_label_ends_where_it_ends() -> None:
    """Whatever an image's name."""
    family = Family("a", "x", "gauge")
    value = 'quote " slash \\ line \n end'
    family.add(1.5, f'b="{escaped(value)}"', 12)
    (found,) = text_string_to_metric_families(render([family]).decode())
    assert found.samples[0].labels == {"b": value}
    assert found.samples[0].value == 1.5


def test_samples_without_a_heading_are_kept() -> None:
    """And a histogram's samples belong to its heading."""
    found = parse_families('x 1\n# TYPE h histogram\nh_bucket{le="1"} 1\nh_sum 2\nh_count 1\ny_total 4\n')
    assert {name: len(one.lines) for name, one in found.items()} == {"x": 1, "h": 3, "y_total": 1}


DASHBOARDS = (
    "kubelet_node_name",
    "kubelet_running_pods",
    "kubelet_running_containers",
    "kubelet_desired_pods",
    "kubelet_evictions",
    "kubelet_pod_start_sli_duration_seconds_bucket",
    "kubelet_started_pods_total",
    "kubelet_started_pods_errors_total",
    "kubelet_started_containers_total",
    "kubernetes_build_info",
    "kubernetes_feature_enabled",
    "kubelet_runtime_operations_total",
    "kubelet_runtime_operations_errors_total",
    "kubelet_runtime_operations_duration_seconds_bucket",
    "kubelet_pod_start_duration_seconds_bucket",
    "kubelet_pod_start_duration_seconds_count",
    "kubelet_pod_worker_duration_seconds_bucket",
    "kubelet_pod_worker_duration_seconds_count",
    "kubelet_pleg_relist_duration_seconds_bucket",
    "kubelet_pleg_relist_interval_seconds_bucket",
    "kubelet_cgroup_manager_duration_seconds_bucket",
    "kubelet_certificate_manager_client_ttl_seconds",
    "kubelet_certificate_manager_server_ttl_seconds",
    "kubelet_certificate_manager_client_expiration_renew_errors",
    "kubelet_server_expiration_renew_errors",
    "storage_operation_duration_seconds_bucket",
    "storage_operation_errors_total",
    "rest_client_requests_total",
    "rest_client_request_duration_seconds_bucket",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
)
"""Metrics of a kubelet's /metrics that kubernetes-mixin and kube-prometheus use; for volumes see test_volumes. Omitted:
kubelet_node_config_error (gone since 1.24), go_goroutines."""


class OneType:
    """Knows containers of one type."""

    def type_of(self, *_: str) -> str:
        """Return it."""
        return REGULAR

    type_with = type_of


def test_dashboards_find_what_they_ask_for() -> None:
    """Each name, once something of the kind has happened."""
    worker, poller, own = Metrics("n"), Metrics("n"), NodeMetrics("n")
    worker.runtime_operation("Version", 0.1, failed=True)
    worker.api_request("GET", "api:6443", 200, 0.1)
    worker.pod_started(1)
    worker.running(1, {"running": 1})
    worker.timings().cgroup("create", 0.1)
    worker.evictions.evicted("memory.available")
    worker.pods.present([])
    answer = RuntimeContainer("c", "c1", "s1", 0, ContainerState.RUNNING)
    worker.steps.done(StartContainer(PodKey("d", "p", "u"), "s1", 0, "", {"name": "c"}, {}), answer, OneType())
    worker.timings().volume("kubernetes.io/nfs", "volume_mount", 0.1, True)
    poller.relists.relisted(0.1)
    poller.relists.relisted(0.1)
    ends = CertificateFacts(not_after=datetime.now(UTC) + timedelta(days=1))
    own_text = own.render({"client": ends, "server": CertificateFacts(ends.not_after, renew_errors=2)})
    told = render(
        merged_families({"worker": worker.render().decode(), "poller": poller.render().decode(), "node": own_text})
    ).decode()
    series = {line.partition(" ")[0].partition("{")[0]: line for line in told.splitlines() if not line.startswith("#")}
    assert [name for name in DASHBOARDS if name not in series] == []
    assert series["kubelet_server_expiration_renew_errors"].endswith(" 2")
    assert float(series["kubelet_certificate_manager_client_ttl_seconds"].split()[-1]) == pytest.approx(86400, abs=60)


def test_a_value_may_hold_what_unicode_takes_for_the_end_of_a_line() -> None:
    """Only a newline ends a line; a split series would make the whole text unparseable."""
    line = 'a_total{said="one\u2028two\x85three"} 1'
    assert parse_families(text("a_total", "counter", line))["a_total"].lines == [line]
