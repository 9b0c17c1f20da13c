"""Does a real node serve the metrics that dashboards, metrics-server and `kubectl top` read from a kubelet, through the API server?"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.cluster_node import ClusterNode
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubectl import Kubectl
from tests.cluster.node.metrics_server import GROUP, VARIABLE, aggregating, metrics_server
from tests.free_ports import free_ports
from tests.node.tempolet_node import BUSYBOX

BUSY = "while :; do :; done & sleep 3600"
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane that aggregates metrics-server."""
    made = ControlPlane(tmp_path_factory.mktemp("plane"))
    made.apiserver_flags = aggregating(made.pki)
    with made:
        yield made


@pytest.fixture(scope="module")
def node(cluster_node: ClusterNode) -> ClusterNode:
    """Run one busy pod with a probe and an emptyDir on a node of this file's control plane."""
    cluster_node.until_ready()
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sh", "-c", BUSY],
        "readinessProbe": PROBE,
        "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    cluster_node.run_pod("busy", containers=[container], volumes=[{"name": "scratch", "emptyDir": {}}])
    return cluster_node


def samples(node: ClusterNode, path: str) -> dict[str, list[Any]]:
    """Read an endpoint through the API server with Prometheus's parser."""
    text = node.api.get(f"{node.path}/proxy{path}")
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def of_pod(found: list[Any], **labels: str) -> Any:
    """Return the only sample of the busy pod with these labels."""
    labels = {"pod": "busy", "namespace": "default", **labels}
    (one,) = [sample for sample in found if labels.items() <= sample.labels.items()]
    return one


def test_one_text_of_three_processes(node: ClusterNode) -> None:
    """It has the metrics of worker, poller and node; those that alerts join on appear once."""
    found = samples(node, "/metrics")
    up = {sample.labels["process"]: sample.value for sample in found["tempolet_process_metrics_up"]}
    assert up == {"worker": 1, "poller": 1}
    assert [sample.labels for sample in found["kubelet_node_name"]] == [{"node": node.name}]
    assert [sample.value for sample in found["kubelet_running_pods"]] == [1]
    assert found["kubelet_pod_start_duration_seconds_count"][0].value >= 1
    for name in ("process_resident_memory_bytes", "rest_client_requests_total", "kubelet_runtime_operations_total"):
        assert {sample.labels["process"] for sample in found[name]} == {"worker", "poller", "node"}, name
    volumes = {sample.labels["volume_plugin"] for sample in found["storage_operation_duration_seconds_count"]}
    assert "kubernetes.io/empty-dir" in volumes
    assert found["kubelet_cgroup_manager_duration_seconds_count"]
    assert found["kubelet_http_requests_total"]


def test_containers_are_told_as_cadvisor_does(node: ClusterNode) -> None:
    """By pod and container, with the image's name."""
    found = samples(node, "/metrics/cadvisor")
    used = of_pod(found["container_cpu_usage_seconds_total"], container="main", image=BUSYBOX)
    assert used.value > 0
    assert of_pod(found["container_memory_working_set_bytes"], container="main").value > 0
    assert of_pod(found["container_cpu_cfs_periods_total"], container="main").value > 0
    assert of_pod(found["container_spec_memory_limit_bytes"], container="main").value == 32 << 20
    assert of_pod(found["container_network_receive_packets_total"], interface="eth0").labels["container"] == ""
    assert found["container_scrape_error"][0].value == 0


def test_probes_are_counted(node: ClusterNode) -> None:
    """By result, with the duration of those that succeeded."""

    def counted() -> float:
        found = samples(node, "/metrics/probes").get("prober_probe_total", [])
        return sum(
            float(one.value) for one in found if one.labels["result"] == "successful" and one.labels["pod"] == "busy"
        )

    node.until(lambda: counted() >= 2, "two probes counted")
    found = samples(node, "/metrics/probes")
    total = of_pod(found["prober_probe_total"], container="main", probe_type="Readiness", result="successful")
    assert total.labels["pod_uid"]
    assert of_pod(found["prober_probe_duration_seconds_count"], container="main").value >= 2


def test_resources_and_checks(node: ClusterNode) -> None:
    """The metrics that metrics-server reads, and those of SLOs."""
    found = samples(node, "/metrics/resource")
    assert of_pod(found["container_cpu_usage_seconds_total"], container="main").timestamp == pytest.approx(
        time.time(), abs=60
    )
    assert of_pod(found["pod_memory_working_set_bytes"]).value > 0
    assert found["resource_scrape_error"][0].value == 0
    checks = {one.labels["name"]: one.value for one in samples(node, "/metrics/slis")["kubernetes_healthcheck"]}
    assert checks == {"ping": 1, "log": 1, "syncloop": 1}


@pytest.mark.parametrize("query", [pytest.param("", id="whole"), pytest.param("?only_cpu_and_memory=true", id="brief")])
def test_the_summary_tells_what_is_in_use_now(node: ClusterNode, query: str) -> None:
    """A container with a limit of a tenth of a CPU uses that much."""

    def measured() -> Any:
        told = node.api.get(f"{node.path}/proxy/stats/summary{query}")
        told = json.loads(told) if isinstance(told, str) else told
        assert told["node"]["nodeName"] == node.name
        (pod,) = [one for one in told["pods"] if one["podRef"]["name"] == "busy"]
        return pod if "usageNanoCores" in pod["containers"][0].get("cpu", {}) else None

    pod = node.until(measured, "two looks, between which it used something")
    assert 20_000_000 < pod["containers"][0]["cpu"]["usageNanoCores"] < 300_000_000
    assert ("volume" in pod) is (query == "")
    if not query:
        assert {one["name"] for one in pod["volume"]} >= {"scratch"}
        assert pod["containers"][0]["rootfs"]["capacityBytes"] > 0


def test_what_is_gone_is_told_no_more(node: ClusterNode) -> None:
    """Neither its containers nor its probes appear."""
    node.run_pod(
        "brief",
        containers=[
            {
                "name": "main",
                "image": BUSYBOX,
                "command": ["sleep", "3600"],
                "readinessProbe": PROBE,
            }
        ],
    )
    assert any(one.labels["pod"] == "brief" for one in samples(node, "/metrics/cadvisor")["container_last_seen"])
    node.api.delete("/api/v1/namespaces/default/pods/brief", gracePeriodSeconds=1)
    node.until_pod_gone("brief")
    for path in ("/metrics/cadvisor", "/metrics/probes", "/metrics/resource"):
        found = samples(node, path)
        assert not [one for many in found.values() for one in many if one.labels.get("pod") == "brief"], path


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no metrics-server (see metrics_server.py)")
def test_kubectl_top_works(node: ClusterNode, plane: ControlPlane, node_ip: str, tmp_path: Path) -> None:
    """With the real metrics-server, which rejects what it can't parse."""
    kubectl = Kubectl(plane.admin_kubeconfig, tmp_path)
    with metrics_server(plane, node_ip, free_ports(1)[0], tmp_path / "metrics-server.log"):
        node.until(lambda: kubectl("top", "pod", "busy", "--containers").code == 0, "kubectl top works")
        pod = kubectl.ok("top", "pod", "busy", "--containers", "--no-headers").split()
        assert pod[:2] == ["busy", "main"]
        assert 50 <= int(pod[2].removesuffix("m")) <= 150
        node_row = kubectl.ok("top", "node", "--no-headers").split()
        assert node_row[0] == node.name
        assert plane.api.get(f"{GROUP}/nodes/{node.name}")["usage"]["memory"]
