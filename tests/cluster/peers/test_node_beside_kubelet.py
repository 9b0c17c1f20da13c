"""Is our Node object the same as the real kubelet's, on the same machine, in the same cluster, with the same configuration?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import condition, lone_node
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import NAME, KubeletNode
from worker.standalone.containerd import Containerd

KEYS: Final = {
    "systemReserved": {"cpu": "100m", "memory": "200Mi"},
    "mergeDefaultEvictionSettings": True,
    "evictionHard": {"pid.available": "5%"},
    "maxPods": 42,
}
NOT_DECLARED: Final = {"ExtendWebSocketsToKubelet"}
"""Features that only the kubelet declares."""


@pytest.fixture
def theirs(kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path) -> Iterator[Any]:
    """Run the real kubelet, and return its Node once that lists its images."""
    with kubelet_node.running(node_dir / "kubelet", KEYS):
        yield plane.api.until(
            f"/api/v1/nodes/{NAME}",
            lambda node: condition(node, "Ready") == "True" and len(node["status"].get("images", ())) > 1,
            patience=90,
        )


def test_both_tell_the_same_of_one_machine(
    theirs: Any, tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """Equal capacity and messages, except for the names, the version, the port and what we do not declare."""
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=dict(KEYS)) as node:
        node.until_ready()
        ours = node.api.until(node.path, lambda one: len(one["status"].get("images", ())) > 1)
    assert ours["metadata"]["annotations"] == theirs["metadata"]["annotations"]
    assert _with_name(ours["metadata"]["labels"], ours) == _with_name(theirs["metadata"]["labels"], theirs)
    our_status, their_status = (_comparable(one) for one in (ours, theirs))
    for part in sorted({*our_status, *their_status}):
        assert (part, our_status.get(part)) == (part, their_status.get(part))
    declared = set(theirs["status"]["declaredFeatures"])
    assert set(ours["status"]["declaredFeatures"]) == declared - NOT_DECLARED


def _comparable(node: Any) -> dict[str, Any]:
    """Remove what must differ: times, the node's name, its version and its port."""
    status = {key: value for key, value in node["status"].items() if key not in {"daemonEndpoints", "declaredFeatures"}}
    status["conditions"] = [
        {key: value for key, value in one.items() if not key.endswith("Time")} for one in status["conditions"]
    ]
    status["addresses"] = [_with_name(one, node) for one in status["addresses"]]
    status["nodeInfo"] = {**status["nodeInfo"], "kubeletVersion": status["nodeInfo"]["kubeletVersion"].split("+")[0]}
    return status


def _with_name(words: dict[str, str], node: Any) -> dict[str, str]:
    """Replace the node's name by NAME."""
    return {key: NAME if value == node["metadata"]["name"] else value for key, value in words.items()}
