"""Does a node whose runtime has no CNI configuration say so in the kubelet's words, and begin by itself when one is there?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import ClusterNode, NewNode, condition
from tests.node.tempolet_node import pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces, PodNetwork

TROUBLE: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
"""Of pkg/kubelet/kubelet.go updateRuntimeUp, with what containerd says."""


class Unconnected(Containerd):
    """A containerd that starts as on a machine where no network has been installed yet."""

    later: str = ""
    """What its configuration is to be."""

    @property
    def configuration(self) -> Path:
        """The network configuration that a network's installation would write."""
        return self.places.cni_config / "10-tempolet.conflist"

    def _write_configuration(self, runc: Path, nft: Path | None) -> None:
        super()._write_configuration(runc, nft)
        self.later = self.configuration.read_text()
        self.configuration.unlink()

    def connect(self) -> None:
        """Install the network: written, for a file that is moved to its place containerd does not notice."""
        self.configuration.write_text(self.later)


@pytest.fixture
def unconnected(node_dir: Path, slot: int) -> Iterator[Unconnected]:
    """Run one, with the images of the session's."""
    places = ContainerdPlaces(root=node_dir / "unconnected" / "lib", run=node_dir / "unconnected" / "run")
    network = PodNetwork(f"tplbare{slot}", f"10.219.{slot}.0/24")
    daemon = Unconnected(places, network, cgroup=f"/tempolet-bare-{slot}")
    with daemon:
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon


def told(node: ClusterNode, uid: str) -> dict[str, str]:
    """Give what events say about an object, by their reason."""
    found = node.api.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{uid}")["items"]
    return {one["reason"]: one["message"] for one in found}


def ready(node: Any) -> tuple[str, str, str]:
    """Give a node's condition Ready: status, reason and message."""
    found = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    return found["status"], found["reason"], found["message"]


def test_a_network_is_waited_for_and_taken_up(tmp_path: Path, unconnected: Unconnected, new_node: NewNode) -> None:
    """The node is not ready and its pods wait, but those on its own network; the configuration written, all go on."""
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
