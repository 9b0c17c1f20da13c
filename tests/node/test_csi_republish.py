"""Does a running pod see what its CSI driver renews?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.csi.orders import Setup
from tests.csi.process import DriverProcess
from tests.node.kept_objects import put_object
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

NAME = "again.test"


@pytest.fixture
def node(containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node that looks after its pods every second; in a short folder, for a socket's path has 107 characters."""
    with (
        tempfile.TemporaryDirectory(prefix="tpl.", dir="/tmp") as folder,
        TempoletNode(Path(folder), containerd, temporal, keys={"syncFrequency": "1s"}) as made,
    ):
        yield made


def test_a_volume_is_published_again_while_its_pod_runs(node: TempoletNode) -> None:
    """Every syncFrequency, and no event of history is spent on it; a new worker goes on with it."""
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
