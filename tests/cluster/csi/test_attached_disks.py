"""Does the cluster's attach/detach controller know disks of iSCSI and Fibre Channel by the names that our node waits for, and does it wait?

A real controller and a Node without a machine: the controller lists such a disk as attached as soon as a pod that names it is on the Node. Then a
real node whose disk the test lists; there is no target, so attaching it fails once it is tried.
"""

from pathlib import Path
from typing import Any

from activities.volumes.types.fc import FibreChannel
from activities.volumes.types.iscsi import Iscsi
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.node.operating import tempolet
from tests.node.tempolet_node import pod_manifest
from worker.node.object.registration import ATTACH_DETACH

NODE = "/api/v1/nodes/n1"
IQN = "iqn.2015-02.example.com:test"
DISKS: dict[str, dict[str, Any]] = {
    "iscsi": {"targetPortal": "192.0.2.1", "iqn": IQN, "lun": 0},
    "iscsi-port": {"targetPortal": "[2001:db8::1]:3261", "iqn": IQN, "lun": 4},
    "fc": {"targetWWNs": ["50060e801049cfd1", "50060e801049cfd0"], "lun": 3},
    "fc-wwid": {"wwids": ["3600508b400105e210000900000490000", "3600 508"]},
}


def test_the_controller_has_the_same_names(tmp_path: Path) -> None:
    """In the Node's volumesAttached."""
    kinds: dict[str, Iscsi | FibreChannel] = {"iscsi": Iscsi(), "fc": FibreChannel()}
    of = {name: name.partition("-")[0] for name in DISKS}
    wanted = {f"{kinds[of[name]].plugin}/{kinds[of[name]].volume_name(disk)}" for name, disk in DISKS.items()}
    with ControlPlane(tmp_path / "plane", controllers=True) as plane:
        plane.until_default_account()
        plane.api.create("/api/v1/nodes", {"metadata": {"name": "n1", "annotations": {ATTACH_DETACH: "true"}}})
        volumes = [{"name": name, of[name]: disk} for name, disk in DISKS.items()]
        pod = pod_manifest("disks", volumes=volumes, nodeName="n1")
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in DISKS]
        pod["spec"]["containers"][0]["volumeMounts"] = mounts
        plane.api.create(pods_path(), pod)

        def attached(node: Any) -> bool:
            return {one["name"] for one in node["status"].get("volumesAttached") or ()} == wanted

        plane.api.until(NODE, attached, f"{wanted} attached")


def test_a_node_waits_until_a_disk_is_listed_as_attached(cluster_node: ClusterNode) -> None:
    """It lists the disk as in use before, and as long as the pod is there; only then it tries to attach it."""
    name = f"kubernetes.io/iscsi/{Iscsi().volume_name(DISKS['iscsi'])}"

    def in_use(node: Any) -> bool:
        return name in (node["status"].get("volumesInUse") or ())

    pod = pod_manifest("disk", volumes=[{"name": "disk", "iscsi": DISKS["iscsi"]}])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/disk"}]
    cluster_node.create_pod(pod)
    cluster_node.api.until(cluster_node.path, in_use, "the disk is in use")
    waiting = cluster_node.pod("disk")
    assert waiting is None or waiting.reason != "FailedMount"
    told = f"is attached to node {cluster_node.name} according to its status"
    cluster_node.until(
        lambda: told in tempolet(cluster_node, "explain", "default/disk")[1], "explain says until what it waits"
    )
    attached = {"status": {"volumesAttached": [{"name": name, "devicePath": ""}]}}
    cluster_node.api.patch(f"{cluster_node.path}/status", attached)
    failed = cluster_node.until_pod("disk", lambda one: one.reason == "FailedMount", "tries to attach it")
    assert failed.message.startswith('MountVolume.WaitForAttach failed for volume "disk" : ')
    assert name not in failed.message
    assert in_use(cluster_node.api.get(cluster_node.path))
    cluster_node.delete_all_pods()
    cluster_node.api.until(cluster_node.path, lambda node: not in_use(node), "the disk is not in use")
    cluster_node.api.patch(f"{cluster_node.path}/status", {"status": {"volumesAttached": None}})
