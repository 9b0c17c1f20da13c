"""Does a node without CNI configuration report that in the kubelet's words, and continue by itself once there is one?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import ClusterNode, NewNode, condition
from tests.killed_sessions import remove_leftovers
from tests.node.tempolet_node import pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.pod_network.rules import PodRules

TROUBLE: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
"""From pkg/kubelet/kubelet.go updateRuntimeUp, with containerd's message."""


class Unconnected(Containerd):
    """A containerd on a machine where no network plugin is configured yet."""

    later: str = ""
    """The content of its configuration."""

    @property
    def configuration(self) -> Path:
        """The network configuration that a network plugin's installer would write."""
        return self.places.cni_config / "10-tempolet.conflist"

    def _write_configuration(self, runc: Path, rules: PodRules, *, host_ports: bool) -> None:
        super()._write_configuration(runc, rules, host_ports=host_ports)
        self.later = self.configuration.read_text()
        self.configuration.unlink()

    def connect(self) -> None:
        """Write the configuration in place: containerd does not notice a file that is renamed into its folder."""
        self.configuration.write_text(self.later)


@pytest.fixture
def unconnected(node_dir: Path, slot: int) -> Iterator[Unconnected]:
    """Run one with the session's images."""
    places = ContainerdPlaces(root=node_dir / "unconnected" / "lib", run=node_dir / "unconnected" / "run")
    network = PodNetwork(f"tplbare{slot}", f"10.219.{slot}.0/24")
    daemon = Unconnected(places, network, cgroup=f"/tempolet-bare-{slot}")
    remove_leftovers(daemon)
    with daemon:
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon


def told(node: ClusterNode, uid: str) -> dict[str, str]:
    """Return an object's events by their reason."""
    found = node.api.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{uid}")["items"]
    return {one["reason"]: one["message"] for one in found}


def ready(node: Any) -> tuple[str, str, str]:
    """Return a node's condition Ready: status, reason and message."""
    found = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    return found["status"], found["reason"], found["message"]


def test_a_network_is_waited_for_and_taken_up(tmp_path: Path, unconnected: Unconnected, new_node: NewNode) -> None:
    """The node is not ready and its pods wait, except those on the host network; with the configuration all continue."""
    with new_node(tmp_path / "node", containerd=unconnected) as node:
        node.until_started()
        node.api.until(node.path, lambda one: ready(one) == ("False", "KubeletNotReady", TROUBLE), "the network missed")
        waiting = node.create_pod(pod_manifest("waits"))["metadata"]["uid"]
        node.create_pod(pod_manifest("on-the-host", hostNetwork=True))
        node.until_pod_ready("on-the-host")
        node.until(lambda: "NetworkNotReady" in told(node, waiting), "the pod told of it")
        assert told(node, waiting)["NetworkNotReady"] == f"network is not ready: {TROUBLE}"
        node.until_api_pod("waits", lambda pod: condition(pod, "PodReadyToStartContainers") == "False")
        unconnected.connect()
        found = node.until_ready()
        assert ready(found) == ("True", "KubeletReady", "kubelet is posting ready status")
        node.until_pod_ready("waits")
        node.until(lambda: "NodeReady" in told(node, node.name), "the node's events")
