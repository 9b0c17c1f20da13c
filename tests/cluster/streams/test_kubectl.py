"""Does the real kubectl work as with the kubelet: get, describe, delete --force, a Deployment's rollout, a Job, drain?"""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kubectl import WITHIN, Kubectl
from tests.cluster.node.metrics_api import metrics_api
from tests.cluster.one_node import NODE, OneNode
from tests.node.tempolet_node import BUSYBOX
from tests.waiting import wait_until


def container(command: str, **more: Any) -> dict[str, Any]:
    """Build a busybox container that exits on SIGTERM."""
    return {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", f"trap 'exit 0' TERM; {command}"], **more}


def deployment(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    """Build a Deployment of pods that wait until they may exit."""
    ready = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    pod = {"terminationGracePeriodSeconds": 5, "containers": [container("sleep 3600 & wait", readinessProbe=ready)]}
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
    spec |= {"template": {"metadata": {"labels": labels}, "spec": pod | more}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def administrator(one_node: OneNode, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Return an administrator's kubectl for the one-node cluster."""
    return Kubectl(one_node.plane.admin_kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
def apply(administrator: Kubectl, one_node: OneNode, request: pytest.FixtureRequest) -> Any:
    """Return a function that applies an object into a namespace of the test, and returns that namespace."""
    name = re.sub(r"[^a-z]+", "-", request.node.name)[:50].strip("-")
    one_node.plane.make_namespace(name)

    def applying(*objects: dict[str, Any]) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        administrator.ok("apply", "-n", name, "-f", "-", stdin=json.dumps(listed).encode())
        return name

    yield applying
    administrator.ok("delete", "namespace", name, "--wait", f"--timeout={WITHIN}s", patience=WITHIN + 10)


Apply = Callable[..., str]


def pods(administrator: Kubectl, namespace: str) -> list[Any]:
    """Return the pods of a namespace."""
    found: list[Any] = json.loads(administrator.ok("get", "pods", "-n", namespace, "-o", "json"))["items"]
    return found


def test_a_pod_is_shown_and_described(administrator: Kubectl, apply: Apply, one_node: OneNode) -> None:
    """With the columns and the events that its user expects."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    pod["spec"] = {"terminationGracePeriodSeconds": 1, "containers": [container("sleep 3600 & wait")]}
    namespace = apply(pod)
    administrator.wait_for("condition=Ready", "pod/web", namespace=namespace)
    line = administrator.ok("get", "pod", "web", "-n", namespace, "-o", "wide", "--no-headers").split()
    assert line[:4] == ["web", "1/1", "Running", "0"]
    assert line[6] == NODE
    reasons = {"Scheduled", "Pulled", "Created", "Started"}
    events = f"/api/v1/namespaces/{namespace}/events"
    one_node.plane.api.until(events, lambda told: reasons <= {one["reason"] for one in told["items"]}, "its events")
    described = administrator.ok("describe", "pod", "web", "-n", namespace)
    assert re.search(r"^Status:\s+Running$", described, re.MULTILINE)
    assert re.search(r"^\s+Ready:\s+True$", described, re.MULTILINE)
    assert re.search(r"Container ID:\s+containerd://", described)
    shown = re.findall(r"^\s+Normal\s+(\w+)", described, re.MULTILINE)
    assert shown == ["Scheduled", "Pulled", "Created", "Started"]


def test_the_node_is_shown_and_described(administrator: Kubectl, one_node: OneNode) -> None:
    """Ready, with its capacity and its pods."""
    line = administrator.ok("get", "node", NODE, "-o", "wide", "--no-headers").split()
    assert line[:2] == [NODE, "Ready"]
    assert line[5] == one_node.address
    described = administrator.ok("describe", "node", NODE)
    for words in (
        "KubeletReady",
        "MemoryPressure",
        "Allocatable:",
        "Non-terminated Pods:",
        "Container Runtime Version",
    ):
        assert words in described


def test_a_deployment_is_rolled_out_and_back(administrator: Kubectl, apply: Apply) -> None:
    """New pods become ready before the old ones are deleted; these stop within their grace period."""
    namespace = apply(deployment("web", 3))
    administrator.rolled_out("web", namespace)
    first = {pod["metadata"]["name"] for pod in pods(administrator, namespace)}
    assert len(first) == 3
    administrator.ok("set", "env", "deployment/web", "-n", namespace, "VERSION=2")
    administrator.rolled_out("web", namespace)
    administrator.ok("rollout", "undo", "deployment/web", "-n", namespace)
    administrator.rolled_out("web", namespace)
    administrator.wait_for("delete", *(f"pod/{name}" for name in first), namespace=namespace)


def test_a_job_runs_to_its_end(administrator: Kubectl, apply: Apply) -> None:
    """Two pods at a time, each of whose containers fails once."""
    once = container(
        "test -e /v/tried && exit 0; touch /v/tried; exit 3", volumeMounts=[{"name": "v", "mountPath": "/v"}]
    )
    pod = {"restartPolicy": "OnFailure", "containers": [once], "volumes": [{"name": "v", "emptyDir": {}}]}
    job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums"}}
    job["spec"] = {"completions": 3, "parallelism": 2, "template": {"spec": pod}}
    namespace = apply(job)
    administrator.wait_for("condition=complete", "job/sums", namespace=namespace)
    found = pods(administrator, namespace)
    assert {one["status"]["phase"] for one in found} == {"Succeeded"}
    assert [one["status"]["containerStatuses"][0]["restartCount"] for one in found] == [1, 1, 1]


def test_a_pod_deleted_by_force_is_gone_from_the_api_and_soon_from_the_node(
    administrator: Kubectl, apply: Apply, one_node: OneNode
) -> None:
    """The API does not wait for the node, and the node stops what the API no longer has."""
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stubborn"}}
    pod["spec"] = {"terminationGracePeriodSeconds": 600, "containers": [container("trap '' TERM; sleep 3600")]}
    namespace = apply(pod)
    administrator.wait_for("condition=Ready", "pod/stubborn", namespace=namespace)
    uid = pods(administrator, namespace)[0]["metadata"]["uid"]
    administrator.ok("delete", "pod", "stubborn", "-n", namespace, "--force", "--grace-period=0")
    assert pods(administrator, namespace) == []
    folder = one_node.settings.root_dir / "pods" / uid
    wait_until(lambda: not folder.exists(), f"{folder} is gone")


def test_a_node_is_drained_and_taken_back(administrator: Kubectl, apply: Apply) -> None:
    """Its pods are evicted within their grace period; new ones wait, and run after uncordon."""
    volumes = [{"name": "scratch", "emptyDir": {}}]
    namespace = apply(deployment("web", 2, volumes=volumes))
    administrator.rolled_out("web", namespace)
    before = {pod["metadata"]["name"] for pod in pods(administrator, namespace)}
    try:
        options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={WITHIN}s")
        administrator.ok("drain", NODE, *options, patience=WITHIN + 10)
        after = pods(administrator, namespace)
        assert before.isdisjoint(pod["metadata"]["name"] for pod in after)
        assert {pod["spec"].get("nodeName") for pod in after} == {None}
        assert "SchedulingDisabled" in administrator.ok("get", "node", NODE)
    finally:
        administrator.ok("uncordon", NODE)
    administrator.rolled_out("web", namespace)


def knowing_metrics(administrator: Kubectl, homes: Path) -> Kubectl:
    """Return a kubectl that has discovered the metrics API, which appears some seconds after its registration."""
    numbers, said = itertools.count(), ""

    def knows() -> Kubectl | None:
        nonlocal said
        kubectl = replace(administrator, home=homes / str(next(numbers)))
        ended = kubectl("top", "node")
        said = ended.err
        return kubectl if ended.code == 0 else None

    found = wait_until(knows, lambda: f"kubectl knows the metrics API: {said}", WITHIN, looks=(0.2, 0.2))
    assert found is not None
    return found


def test_top_shows_what_node_and_pods_use(
    administrator: Kubectl, apply: Apply, one_node: OneNode, tmp_path: Path
) -> None:
    """From /metrics/resource, computed as metrics-server does."""
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}}
    busy = container("while true; do :; done & wait", resources={"limits": {"cpu": "200m"}})
    pod["spec"] = {"terminationGracePeriodSeconds": 1, "containers": [busy]}
    namespace = apply(pod)
    administrator.wait_for("condition=Ready", "pod/busy", namespace=namespace)
    with metrics_api(one_node.plane, NODE, one_node.address):
        kubectl = knowing_metrics(administrator, tmp_path)
        name, cpu, memory = kubectl.ok("top", "pod", "-n", namespace, "--no-headers").split()
        node = kubectl.ok("top", "node", "--no-headers").split()
    assert name == "busy"
    assert 50 <= int(cpu.removesuffix("m")) <= 300, "a loop that may use a fifth of a core, on a machine that is busy"
    assert memory.endswith("Mi")
    assert node[0] == NODE
    assert int(node[1].removesuffix("m")) > 0
