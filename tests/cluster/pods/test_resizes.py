"""Does a resize for which there is no room wait until there is, with real API server and kubectl?"""

import json
import os
from typing import Any

from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.kubectl import Kubectl
from tests.node.tempolet_node import pod_manifest


def requesting(name: str, cpu: str) -> dict[str, Any]:
    """Build a pod that requests so much cpu."""
    made = pod_manifest(name, automountServiceAccountToken=False, terminationGracePeriodSeconds=1)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def condition(pod: Any) -> Any:
    """Return the condition of a resize that waits; empty if there is none."""
    return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "PodResizePending"), {})


def test_a_resize_waits_for_room_and_is_granted_when_another_pod_goes(
    cluster_node: ClusterNode, kubectl: Kubectl
) -> None:
    """As `kubectl patch --subresource resize` asks for it; the condition and the event are the kubelet's."""
    cpus = os.cpu_count() or 1
    cluster_node.create_pod(requesting("large", f"{cpus * 1000 - 500}m"))
    cluster_node.create_pod(requesting("waits", "50m"))
    before = cluster_node.until_running("waits")
    cluster_node.until_running("large")
    resources = {"requests": {"cpu": "700m"}}
    patch = json.dumps({"spec": {"containers": [{"name": "main", "resources": resources}]}})
    kubectl.ok("patch", "pod", "waits", "--subresource", "resize", "--patch", patch)
    pod = cluster_node.until_api_pod("waits", condition, "the condition")
    shown, allocatable = condition(pod), cpus * 1000
    assert (shown["reason"], shown["status"], shown["observedGeneration"]) == ("Deferred", "True", 2)
    assert shown["message"].startswith("Node didn't have enough resource: cpu, requested: 700, used: ")
    assert shown["message"].endswith(f", capacity: {allocatable}")
    told = cluster_node.until(
        lambda: [one for one in events(kubectl, "waits") if one["reason"] == "ResizeDeferred"], "the event"
    )
    content = json.loads(told[0]["message"].removeprefix("Pod resize OutOfcpu: "))
    assert content == {
        "containers": [{"name": "main", "resources": resources}],
        "generation": 2,
        "error": shown["message"],
    }
    cluster_node.api.delete(pods_path(name="large"), gracePeriodSeconds=1)
    cluster_node.until_api_pod("waits", lambda one: requested(one) == "700m" and not condition(one), "granted")
    now = cluster_node.pod("waits")
    assert now is not None
    assert now.containers == before.containers
    cluster_node.api.delete(pods_path(name="waits"), gracePeriodSeconds=1)
    cluster_node.until_pod_gone("waits")


def requested(pod: Any) -> Any:
    """Return the cpu that the API shows for the running container."""
    shown = pod["status"]["containerStatuses"][0].get("resources") or {}
    return (shown.get("requests") or {}).get("cpu")


def events(kubectl: Kubectl, name: str) -> list[Any]:
    """List a pod's events."""
    found: list[Any] = json.loads(
        kubectl.ok("get", "events", "--field-selector", f"involvedObject.name={name}", "--output", "json")
    )["items"]
    return found
