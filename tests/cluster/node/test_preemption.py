"""Does a node of a cluster stop pods for a critical one as a kubelet does, and tell of it?"""

import json
from pathlib import Path
from typing import Any

from activities.machine.node_capacity import cpu_capacity
from tests.cluster.cluster_node import ClusterNode, NewNode
from tests.cluster.kubectl import Kubectl
from tests.node.operating import tempolet
from tests.node.pod_story import story
from tests.node.tempolet_node import pod_manifest

CPU = 500
"""What the node has for its pods, in thousandths."""


def asking(name: str, cpu: int, *, guaranteed: bool = False, **spec: Any) -> dict[str, Any]:
    """Build a pod that requests so much."""
    manifest = pod_manifest(name, **{"automountServiceAccountToken": False, **spec})
    amounts = {"cpu": f"{cpu}m", "memory": "32Mi"}
    resources = {"requests": amounts} | ({"limits": amounts} if guaranteed else {})
    manifest["spec"]["containers"][0]["resources"] = resources
    return manifest


def test_a_critical_pod_takes_the_place_of_another(tmp_path: Path, new_node: NewNode, kubectl: Kubectl) -> None:
    """The one that suffices alone, and is not Guaranteed; the others run on, and an ordinary pod is refused."""
    with new_node(tmp_path / "node", keys={"systemReserved": {"cpu": f"{cpu_capacity() - CPU}m"}}) as node:
        node.until_ready()
        for pod in (asking("solid", 200, guaranteed=True), asking("small", 100), asking("large", 200)):
            node.create_pod(pod)
        for name in ("solid", "small", "large"):
            node.until_pod_ready(name)
        node.create_pod(asking("ordinary", 150))
        refused = node.until_api_pod("ordinary", lambda pod: pod["status"]["phase"] == "Failed", "the refusal")[
            "status"
        ]
        assert (refused["reason"], refused["message"]) == (
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 150, used: 500, capacity: 500",
        )
        node.create_pod(asking("vital", 150, priorityClassName="system-node-critical"))
        assert node.until_pod_ready("vital")["status"]["phase"] == "Running"
        _tells_of_its_preemption(node, kubectl)
        running = json.loads(kubectl.ok("get", "pods", "-o", "json", "--field-selector", "status.phase=Running"))
        assert sorted(one["metadata"]["name"] for one in running["items"]) == ["small", "solid", "vital"]
        assert all(one["restartCount"] == 0 for pod in running["items"] for one in pod["status"]["containerStatuses"])
        metrics = kubectl.ok("get", "--raw", f"{node.path}/proxy/metrics")
        (counted,) = [line for line in metrics.splitlines() if line.startswith("kubelet_preemptions{")]
        assert 'preemption_signal="cpu"' in counted
        assert float(counted.split()[-1]) == 1


def test_a_resize_of_a_critical_pod_takes_the_place_of_another(
    tmp_path: Path, new_node: NewNode, kubectl: Kubectl
) -> None:
    """By the subresource; the container has more then, and was not restarted."""
    with new_node(tmp_path / "node", keys={"systemReserved": {"cpu": f"{cpu_capacity() - CPU}m"}}) as node:
        node.until_ready()
        vital = asking("vital", 150, priorityClassName="system-node-critical")
        for pod in (vital, asking("solid", 200, guaranteed=True), asking("small", 100)):
            node.create_pod(pod)
        for name in ("vital", "solid", "small"):
            node.until_pod_ready(name)
        (container,) = vital["spec"]["containers"]
        resized = {"name": container["name"], "resources": {"requests": {"cpu": "300m"}}}
        patch = json.dumps({"spec": {"containers": [resized]}})
        kubectl.ok("patch", "pod", "vital", "--subresource", "resize", "--patch", patch)
        ended = node.until_api_pod("small", lambda pod: pod["status"]["phase"] == "Failed", "its end")["status"]
        assert (ended["reason"], ended["message"]) == ("Preempting", "Preempted in order to admit critical pod")
        granted = node.until_api_pod("vital", lambda pod: _requested_cpu(pod) == "300m", "what it asked for")
        assert granted["status"]["containerStatuses"][0]["restartCount"] == 0
        assert node.until_pod_ready("solid")["status"]["containerStatuses"][0]["restartCount"] == 0


def _requested_cpu(pod: Any) -> object:
    shown = pod["status"]["containerStatuses"][0].get("resources") or {}
    return (shown.get("requests") or {}).get("cpu")


def _tells_of_its_preemption(node: ClusterNode, kubectl: Kubectl) -> None:
    over = node.until_api_pod("large", lambda pod: pod["status"]["phase"] == "Failed", "its end")
    status = over["status"]
    assert (status["phase"], status["reason"], status["message"]) == (
        *("Failed", "Preempting"),
        "Preempted in order to admit critical pod",
    )
    target = next(one for one in status["conditions"] if one["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == (
        *("True", "TerminationByKubelet"),
        "Pod was preempted by Kubelet to accommodate a critical pod.",
    )
    events = node.until(
        lambda: kubectl.ok("events", "--for", "pod/large", "--types", "Warning", "--no-headers"), "the event"
    )
    assert "Preempting" in events
    assert "Preempted in order to admit critical pod" in events
    chosen = "default/vital needs 150m cpu more than is left, and this Burstable pod requests 200m cpu"
    large = node.pod("large")
    assert large is not None
    told = story(node, large)
    assert any(one.startswith(f"the node chose this pod because {chosen}") for one in told), told
    code, explained = tempolet(node, "explain", "default/large")
    assert code == 0, explained
    assert f"this pod because {chosen}" in " ".join(explained.split())
