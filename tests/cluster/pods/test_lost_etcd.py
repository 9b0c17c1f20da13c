"""Does a node keep its pods when the API server loses all data and starts empty?"""

from pathlib import Path

from tests.cluster.cluster_node import NewNode, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.node.tempolet_node import pod_manifest

TOLD = "the API server serves another cluster than before, or has lost its etcd"


def test_a_lost_etcd_kills_no_pod(tmp_path: Path, new_node: NewNode) -> None:
    """Neither at once, nor after the node has registered again, nor after a restart of the poller; new pods run beside them."""
    with ControlPlane(tmp_path / "plane") as plane, new_node(tmp_path, plane=plane) as node:
        node.until_started()
        node.apply(pod_manifest("static"))
        static = node.until_running("static")
        node.api.until(pods_path(name=static.name), bool, "the mirror pod")
        uid = node.create_pod(pod_manifest("web", automountServiceAccountToken=False))["metadata"]["uid"]
        node.until_pod_ready("web")
        before = {one.uid: (one.sandbox_id, one.containers) for one in node.snapshots()}
        first_node = node.api.get(node.path)["metadata"]["uid"]

        plane.lose_etcd()
        node.api.until(node.path, lambda found: found["metadata"]["uid"] != first_node, "the Node registered anew")
        node.until(lambda: TOLD in node.log("poller"), "the loss told")
        node.api.until(pods_path(name=static.name), bool, "the mirror pod in the new cluster")
        node.stop("poller")
        node.start("poller")
        node.until(lambda: node.log("poller").count(TOLD) > 1, "the loss told again")

        node.create_pod(pod_manifest("new", automountServiceAccountToken=False))
        node.until_pod_ready("new")
        after = {one.uid: (one.sandbox_id, one.containers) for one in node.snapshots() if one.phase == "Running"}
        assert {one: after.get(one) for one in before} == before
        assert uid in before
        node.stop("poller")  # and stopping the node must not wait for a pod that the API server does not know
        (node.root_dir / "tempolet" / "cluster.uid").unlink()
        node.start("poller")
        node.until(lambda: uid not in {one.uid for one in node.snapshots()}, "the old cluster's pod gone")
