"""Does a node of a cluster under pressure refuse and evict pods, and tell of it, as a kubelet does?"""

from pathlib import Path
from typing import Any

from tests.cluster.cluster_node import ClusterNode, NewNode, condition, pods_path
from tests.node.tempolet_node import pod_manifest


def asking(name: str, **spec: Any) -> dict[str, Any]:
    """Build a pod that requests memory, of which it uses more."""
    manifest = pod_manifest(name, **{"automountServiceAccountToken": False, **spec})
    manifest["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1"}}
    return manifest


def test_a_node_that_is_short_of_memory(tmp_path: Path, new_node: NewNode) -> None:
    """The threshold exceeds any machine's memory, so the pressure lasts."""
    with new_node(tmp_path / "node", keys={"evictionHard": {"memory.available": "99.99%"}}) as node:
        node.until_ready()
        node.api.until(node.path, lambda one: condition(one, "MemoryPressure") == "True", "the pressure")
        node.create_pod(pod_manifest("refused", automountServiceAccountToken=False))
        node.create_pod(asking("vital", priorityClassName="system-node-critical"))
        node.create_pod(asking("chosen"))
        refused = _failed(node, "refused")
        assert refused["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
        assert refused["reason"] == "Evicted"
        evicted = _failed(node, "chosen")
        assert evicted["reason"] == "Evicted"
        assert evicted["message"].startswith("The node was low on resource: memory. Threshold quantity: ")
        target = next(one for one in evicted["conditions"] if one["type"] == "DisruptionTarget")
        assert (target["status"], target["reason"], target["message"]) == (
            "True",
            "TerminationByKubelet",
            evicted["message"],
        )
        told = node.until(lambda: events_of(node, "chosen", "Evicted"), "the event of the eviction")
        assert told[0]["message"] == evicted["message"]
        annotations = told[0]["metadata"].get("annotations") or {}  # none if it was chosen before it was first measured
        assert annotations.get("starved_resource", "memory") == "memory"
        offender = (
            "main" if "Container main was using " in evicted["message"] else ""
        )  # its container may be measured later
        assert annotations.get("offending_containers", "") == offender
        acted = node.until(lambda: events_of(node, node.name, "EvictionThresholdMet"), "the event of the node")
        assert (acted[0]["type"], acted[0]["message"]) == ("Warning", "Attempting to reclaim memory")
        assert node.until_pod_ready("vital")["status"]["phase"] == "Running"


def _failed(node: ClusterNode, name: str) -> Any:
    """Wait until a pod has failed; returns its status."""
    return node.until_api_pod(name, lambda pod: pod["status"]["phase"] == "Failed", f"{name} has failed")["status"]


def events_of(node: ClusterNode, name: str, reason: str) -> list[Any]:
    """Return the events of this reason about an object."""
    found = node.api.get(f"{pods_path().removesuffix('/pods')}/events?fieldSelector=involvedObject.name%3D{name}")
    return [one for one in found["items"] if one["reason"] == reason]
