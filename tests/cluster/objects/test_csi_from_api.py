"""Does a pod of the API get its CSI volume: attached by the cluster, with tokens, and reported in CSINode and Node?"""

import hashlib
import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.csi.orders import Setup
from tests.csi.process import DriverProcess
from tests.node.tempolet_node import pod_manifest

STAGE, PUBLISH = "NodeStageVolume", "NodePublishVolume"
STORAGE = "/apis/storage.k8s.io/v1"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
MODE = {"volumeMode": "Filesystem", "accessModes": ["ReadWriteOnce"]}


@pytest.fixture
def driver(cluster_node: ClusterNode) -> Iterator[DriverProcess]:
    """Run a driver whose volumes need attaching, and that requests a token."""
    name = f"d{uuid.uuid4().hex[:6]}.test"
    spec = {"attachRequired": True, "tokenRequests": [{"audience": "vault", "expirationSeconds": 3600}]}
    cluster_node.api.create(f"{STORAGE}/csidrivers", {"metadata": {"name": name}, "spec": spec})
    with (
        tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder,
        DriverProcess(Path(folder), cluster_node.root_dir / "plugins_registry", Setup(name)) as process,
    ):
        yield process
        cluster_node.delete_all_pods()


def bind(node: ClusterNode, driver: DriverProcess, name: str, owner: dict[str, Any] | None = None) -> str:
    """Create a volume with its claim, bound as the controllers do it; returns the volume's handle."""
    handle = f"handle-{name}"
    volume = driver.folder.volume(handle)
    volume.mkdir(parents=True)
    (volume / "file").write_text(f"content of {name}\n")
    metadata = {"name": name} | ({"ownerReferences": [owner]} if owner else {})
    asked = {**MODE, "resources": {"requests": {"storage": "1Mi"}}, "volumeName": f"pv-{name}", "storageClassName": ""}
    claim = node.api.create(CLAIMS, {"metadata": metadata, "spec": asked})
    reference = {"namespace": "default", "name": name, "uid": claim["metadata"]["uid"]}
    made_of = {"driver": driver.setup.name, "volumeHandle": handle}
    spec = {"csi": made_of, "claimRef": reference, "capacity": {"storage": "1Mi"}, **MODE}
    node.api.create("/api/v1/persistentvolumes", {"metadata": {"name": f"pv-{name}"}, "spec": spec})
    node.api.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})
    return handle


def attach(node: ClusterNode, driver: DriverProcess, name: str, **metadata: str) -> None:
    """Attach a volume, as the attach controller and the external attacher do it."""
    handle = f"handle-{name}"
    digest = hashlib.sha256(f"{handle}{driver.setup.name}{node.name}".encode()).hexdigest()
    spec = {
        "attacher": driver.setup.name,
        "nodeName": node.name,
        "source": {"persistentVolumeName": f"pv-{name}"},
    }
    node.api.create(f"{STORAGE}/volumeattachments", {"metadata": {"name": f"csi-{digest}"}, "spec": spec})
    status = {"attached": True, "attachmentMetadata": metadata}
    node.api.patch(f"{STORAGE}/volumeattachments/csi-{digest}/status", {"status": status})


def test_a_driver_stands_in_the_nodes_csi_node(cluster_node: ClusterNode, driver: DriverProcess) -> None:
    """With its id of the node in an annotation; both are removed with it."""
    name = driver.setup.name
    path = f"{STORAGE}/csinodes/{cluster_node.name}"
    found = cluster_node.api.until(path, lambda one: name in str(one["spec"]["drivers"]), f"{name} in the CSINode")
    node = cluster_node.api.get(cluster_node.path)
    [owner] = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])
    [said] = [one for one in found["spec"]["drivers"] if one["name"] == name]
    migrated = found["metadata"]["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"]
    assert "kubernetes.io/aws-ebs" in migrated.split(",")
    assert json.loads(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"])[name] == said["nodeID"]
    driver.stop()
    cluster_node.api.until(path, lambda one: name not in str(one["spec"]["drivers"]), f"{name} out of the CSINode")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param({"node_id": ""}, "driverNodeID must not be empty", id="no-id"),
        pytest.param({"topology": {"zone": "a b/c!"}}, "a valid label must be", id="a-topology-that-is-no-label"),
        pytest.param(
            {"topology": {"kubernetes.io/hostname": "elsewhere"}},
            'detected topology value collision: driver reported "kubernetes.io/hostname":"elsewhere"',
            id="a-topology-that-contradicts-the-node",
        ),
        pytest.param(
            {"topology": {"node-restriction.kubernetes.io/rack": "7"}},
            "error updating Node object with CSI driver node info",
            id="a-label-that-the-server-forbids",
        ),
    ],
)
def test_a_driver_that_cannot_be_listed_keeps_no_other_out(
    cluster_node: ClusterNode, said: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """It is told that it is not registered, and why; another one is listed, and removed again, meanwhile."""
    path, registry = f"{STORAGE}/csinodes/{cluster_node.name}", cluster_node.root_dir / "plugins_registry"
    bad, good = Setup(f"b{uuid.uuid4().hex[:6]}.test", **said), Setup(f"g{uuid.uuid4().hex[:6]}.test")
    with DriverProcess(tmp_path / "bad", registry, bad) as refused:
        cluster_node.until(lambda: refused.folder.calls("NotifyRegistrationStatus"), "the driver is told")
        with DriverProcess(tmp_path / "good", registry, good):
            listed = cluster_node.api.until(path, lambda one: good.name in str(one["spec"]), "the other is listed")
            assert bad.name not in str(listed["spec"]["drivers"])
        cluster_node.api.until(path, lambda one: good.name not in str(one["spec"]), "the other is listed no longer")
        told = refused.folder.calls("NotifyRegistrationStatus")
        assert {(one["registered"], why in one["error"]) for one in told} == {(False, True)}


def counted(summary: Any) -> bool:
    """Report whether a summary has the use of the claim's volume."""
    volumes = [one for pod in summary["pods"] if pod["podRef"]["name"] == "grows" for one in pod.get("volume") or ()]
    found = [one for one in volumes if one.get("pvcRef") == {"name": "grown", "namespace": "default"}]
    return len(found) == 1 and found[0]["capacityBytes"] >= found[0]["usedBytes"] > 0


def test_a_volume_is_staged_when_it_is_attached(cluster_node: ClusterNode, driver: DriverProcess) -> None:
    """With the attachment's metadata and a token of the pod's service account, which appears nowhere else.

    It is in volumesInUse before, so that the cluster does not detach it meanwhile, and as long as the pod has it.
    """
    bind(cluster_node, driver, "disk")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]
    uid = cluster_node.create_pod(pod_manifest("attached", volumes=volumes))["metadata"]["uid"]
    unique = f"kubernetes.io/csi/{driver.setup.name}^handle-disk"

    def in_use(node: Any) -> bool:
        return bool(node["status"].get("volumesInUse") == [unique])

    cluster_node.api.until(cluster_node.path, in_use, "the volume is in use")
    assert driver.folder.calls(STAGE) == []
    attach(cluster_node, driver, "disk", device="sdb")
    cluster_node.until_running("attached")
    [stage], [publish] = driver.folder.calls(STAGE), driver.folder.calls(PUBLISH)
    assert stage["publishContext"] == publish["publishContext"] == {"device": "sdb"}
    said = publish["volumeContext"]["csi.storage.k8s.io/serviceAccount.tokens"]
    token = json.loads(said)["vault"]["token"]
    review = {"spec": {"token": token, "audiences": ["vault"]}}
    user = cluster_node.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]["user"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [uid]
    assert token not in cluster_node.log("worker")
    assert in_use(cluster_node.api.get(cluster_node.path))
    cluster_node.delete_all_pods()
    cluster_node.api.until(cluster_node.path, lambda node: not node["status"].get("volumesInUse"), "none is in use")


def test_a_generic_ephemeral_volume_is_its_pods(cluster_node: ClusterNode, driver: DriverProcess) -> None:
    """By the claim that the cluster creates for it; a claim of that name that the pod does not own is refused."""
    template = {"spec": {**MODE, "resources": {"requests": {"storage": "1Mi"}}}}
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
    uid = cluster_node.create_pod(pod_manifest("own", volumes=volumes))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "own", "uid": uid, "controller": True}
    bind(cluster_node, driver, "own-data", owner)
    attach(cluster_node, driver, "own-data")
    cluster_node.until_running("own")
    bind(cluster_node, driver, "theft-data")
    cluster_node.create_pod(pod_manifest("theft", volumes=volumes))
    words = "PVC default/theft-data was not created for pod default/theft (pod is not owner)"
    cluster_node.until_pod("theft", lambda one: words in one.message, words)
    cluster_node.api.delete(pods_path(name="theft"), gracePeriodSeconds=0)


def test_a_grown_claim_is_expanded_and_counted(cluster_node: ClusterNode) -> None:
    """Before its pod starts: the API server takes the claim's status from the node, and the events of pod and claim.

    The node process asks the driver about its use, which has registered with the worker.
    """
    api, name = cluster_node.api, f"d{uuid.uuid4().hex[:6]}.test"
    api.create(f"{STORAGE}/csidrivers", {"metadata": {"name": name}, "spec": {"attachRequired": False}})
    setup = Setup(name, capabilities=("STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME", "GET_VOLUME_STATS"))
    with (
        tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder,
        DriverProcess(Path(folder), cluster_node.root_dir / "plugins_registry", setup) as driver,
    ):
        bind(cluster_node, driver, "grown")
        api.patch("/api/v1/persistentvolumes/pv-grown", {"spec": {"capacity": {"storage": "2Mi"}}})
        status = {
            "capacity": {"storage": "1Mi"},
            "allocatedResources": {"storage": "2Mi"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
        }
        api.patch(f"{CLAIMS}/grown/status", {"status": status})
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "grown"}}]
        cluster_node.create_pod(pod_manifest("grows", volumes=volumes))
        cluster_node.until_running("grows")
        [asked] = driver.folder.calls("NodeExpandVolume")
        assert asked["capacityRange"] == {"requiredBytes": str(2 << 20)}
        after = api.get(f"{CLAIMS}/grown")["status"]
        assert after["capacity"] == {"storage": "2Mi"}
        assert not after.get("allocatedResourceStatuses")
        assert not after.get("conditions")
        for kind in ("Pod", "PersistentVolumeClaim"):
            chosen = f"reason=FileSystemResizeSuccessful,involvedObject.kind={kind}"
            path = f"/api/v1/namespaces/default/events?fieldSelector={chosen}"
            api.until(path, lambda found: bool(found["items"]), f"the event of the {kind}")
        api.until(f"{cluster_node.path}/proxy/stats/summary", counted, "the volume is counted")
        assert driver.folder.calls("NodeGetVolumeStats")[0]["volumeId"] == "handle-grown"
        cluster_node.delete_all_pods()


def test_a_volume_of_a_cloud_in_a_pods_spec_is_its_drivers(cluster_node: ClusterNode) -> None:
    """As the API server defaults it, and attached as the attach controller does it, by what the volume was translated to."""
    api, name = cluster_node.api, "disk.csi.azure.com"
    api.create(f"{STORAGE}/csidrivers", {"metadata": {"name": name}, "spec": {"attachRequired": True}})
    uri = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
    with (
        tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder,
        DriverProcess(Path(folder), cluster_node.root_dir / "plugins_registry", Setup(name)) as driver,
    ):
        disk = {"diskName": "d", "diskURI": uri, "kind": "Managed"}
        cluster_node.create_pod(pod_manifest("cloud", volumes=[{"name": "data", "azureDisk": disk}]))
        unique = f"kubernetes.io/csi/{name}^{uri}"
        api.until(cluster_node.path, lambda node: node["status"].get("volumesInUse") == [unique], "the disk is in use")
        attachment = f"csi-{hashlib.sha256(f'{uri}{name}{cluster_node.name}'.encode()).hexdigest()}"
        made_of = {"csi": {"driver": name, "volumeHandle": uri}, "accessModes": ["ReadWriteOnce"]}
        spec = {"attacher": name, "nodeName": cluster_node.name, "source": {"inlineVolumeSpec": made_of}}
        api.create(f"{STORAGE}/volumeattachments", {"metadata": {"name": attachment}, "spec": spec})
        api.patch(f"{STORAGE}/volumeattachments/{attachment}/status", {"status": {"attached": True}})
        cluster_node.until_running("cloud")
        [stage] = driver.folder.calls(STAGE)
        assert stage["volumeId"] == uri
        assert stage["volumeContext"] == {"cachingmode": "ReadWrite", "fstype": "ext4", "kind": "Managed"}
        cluster_node.delete_all_pods()
        assert len(driver.folder.calls("NodeUnstageVolume")) == 1
