"""Does a running pod see its CSI volume republished, and is the volume of a lost pod unmounted?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.files import mounts
from proto.pod_snapshot import PodSnapshot
from tests.csi.orders import Setup
from tests.csi.process import DriverProcess
from tests.node.kept_objects import put_object
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

NAME = "again.test"


@pytest.fixture
def node(containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with a syncFrequency of one second, in a short folder: a socket's path is limited to 107 characters."""
    with (
        tempfile.TemporaryDirectory(prefix="tpl.", dir="/tmp") as folder,
        tempolet_node(Path(folder), containerd, temporal, keys={"syncFrequency": "1s"}) as made,
    ):
        yield made


def test_a_volume_is_published_again_while_its_pod_runs(node: TempoletNode) -> None:
    """Every syncFrequency, without events in the history; a new worker continues."""
    spec = {"requiresRepublish": True, "volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": True}
    put_object(node, "csidrivers", NAME, spec=spec)
    manifest = pod_manifest("again")
    manifest["spec"]["volumes"] = [{"name": "data", "csi": {"driver": NAME}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    with (
        tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder,
        DriverProcess(Path(folder), node.root_dir / "plugins_registry", Setup(NAME)) as driver,
    ):
        node.apply(manifest)
        snapshot = node.until_running("again")
        node.until(lambda: driver.folder.count("NodePublishVolume") >= 3, "published three times")
        node.stop("worker")
        before = driver.folder.count("NodePublishVolume")
        node.start("worker")
        node.until(lambda: driver.folder.count("NodePublishVolume") > before, "published by the new worker")
        first, *_, last = driver.folder.calls("NodePublishVolume")
        assert last == first
        assert last["volumeContext"]["csi.storage.k8s.io/pod.uid"] == snapshot.uid
        node.remove_all()
        assert driver.folder.count("NodeUnpublishVolume") == 1


async def terminate(node: TempoletNode, snapshot: PodSnapshot) -> None:
    """Terminate a pod's workflow, as no operator should."""
    await (await node.workflow(snapshot)).terminate("the test says so")


def test_the_volume_of_a_pod_that_nobody_remembers_is_given_back(node: TempoletNode) -> None:
    """Its workflow and its manifest are gone: the cleanup waits for the worker, and the folders are removed after unmounting."""
    modes, reference = ["ReadWriteOnce"], {"namespace": "default", "name": "disk"}
    made_of = {"driver": NAME, "volumeHandle": "disk"}
    put_object(node, "csidrivers", NAME, spec={"attachRequired": False})
    put_object(node, "persistentvolumeclaims", "disk", spec={"volumeName": "disk", "accessModes": modes})
    put_object(node, "persistentvolumes", "disk", spec={"csi": made_of, "claimRef": reference, "accessModes": modes})
    manifest = pod_manifest("forgotten", "echo kept > /data/file; sleep 3600")
    manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    with (
        tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder,
        DriverProcess(Path(folder), node.root_dir / "plugins_registry", Setup(NAME)) as driver,
    ):
        node.apply(manifest)
        snapshot = node.until_running("forgotten")
        file = driver.folder.volume("disk") / "file"
        node.until(lambda: file.exists() and file.read_text(), "what the container wrote")
        node.stop("poller")
        wait(terminate(node, snapshot))
        node.remove("forgotten")
        node.start("poller")
        node.until(lambda: not (node.root_dir / "pods" / snapshot.uid).exists(), "its folders gone")
        undone = driver.folder.calls("NodeUnpublishVolume", "NodeUnstageVolume")
        assert [one["call"] for one in undone] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
        assert file.read_text() == "kept\n"
        assert [one for one in mounts.mounts_below(node.root_dir) if "csi" in one] == []
