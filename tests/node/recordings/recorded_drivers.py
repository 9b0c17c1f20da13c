"""The life of a pod with a CSI volume, for `record_histories`."""

from tests.csi.orders import Order, Setup
from tests.csi.process import DriverProcess
from tests.node.kept_objects import put_object
from tests.node.tempolet_node import TempoletNode, pod_manifest


def late_driver(node: TempoletNode) -> None:
    """A pod waits for the driver of its volume, which is unmounted only at the second attempt."""
    name = "disks.example.com"
    reference, modes = {"namespace": "default", "name": "disk"}, ["ReadWriteOnce"]
    made_of = {"driver": name, "volumeHandle": "disk-1"}
    put_object(node, "csidrivers", name, spec={"attachRequired": False})
    put_object(node, "persistentvolumeclaims", "disk", spec={"volumeName": "disk", "accessModes": modes})
    put_object(node, "persistentvolumes", "disk", spec={"csi": made_of, "claimRef": reference, "accessModes": modes})
    manifest = pod_manifest("pod", "touch /data/file; sleep 3600")
    manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.reason == "FailedMount", "waiting for its driver")
    registry = node.root_dir / "plugins_registry"
    with DriverProcess(node.directory / "driver", registry, Setup(name)) as driver:
        node.until_running("pod")
        file = driver.folder.volume("disk-1") / "file"
        node.until(file.exists, "what the container wrote")
        driver.folder.order("NodeUnpublishVolume", Order(times=1, code="INTERNAL", details="the device is busy"))
        node.remove_all()
