"""Does the cluster's attach/detach controller know disks of iSCSI and Fibre Channel by the names that our node waits for?

A real controller and a Node without a machine: the controller lists such a disk as attached as soon as a pod that names it is on the Node.
"""

from pathlib import Path
from typing import Any

from activities.volumes.types.fc import FibreChannel
from activities.volumes.types.iscsi import Iscsi
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
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
