"""Does our node mount volumes of the official CSI mock, and call it as the kubelet does?

The mock is that of Kubernetes' own tests. It keeps its volumes in memory and makes folders, no mounts. What it is asked it prints.
"""

import hashlib
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_node import ClusterNode
from tests.cluster.csi.programs import MOCK, find_mock, why_not
from tests.node.tempolet_node import pod_manifest

STORAGE = "/apis/storage.k8s.io/v1"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
MODE = {"volumeMode": "Filesystem", "accessModes": ["ReadWriteMany"]}
LIFE = ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")
NAME = "mock.csi.k8s.io"


class Mock:
    """The running mock."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def calls(self, *kinds: str) -> list[dict[str, Any]]:
        """Return what it was asked, in order."""
        lines = self._log.read_text().rpartition("\n")[0].splitlines()
        return [one for one in map(json.loads, lines) if one["call"] in kinds]


@pytest.fixture
def mock(cluster_node: ClusterNode) -> Iterator[Mock]:
    """Run the mock, whose volumes need attaching and are expanded on the node."""
    if reason := why_not(MOCK, "mock"):
        pytest.skip(reason)
    api, registry = cluster_node.api, cluster_node.root_dir / "plugins_registry"
    api.create(f"{STORAGE}/csidrivers", {"metadata": {"name": NAME}, "spec": {"attachRequired": True}})
    cluster_node.until(registry.exists, "the plugins' folder")
    with tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder:
        log = Path(folder) / "calls"
        command = [str(find_mock()), "-folder", folder, "-registry", str(registry), "-name", NAME]
        command += ["-node-expand-required", "-attach-limit", "2"]
        with log.open("wb") as calls:
            process = subprocess.Popen(command, stdout=calls)
        try:
            made = Mock(log)
            cluster_node.until(lambda: made.calls("NotifyRegistrationStatus"), "the mock is registered")
            yield made
            cluster_node.delete_all_pods()
        finally:
            process.terminate()
            process.wait()
            api.delete(f"{STORAGE}/csidrivers/{NAME}")


def bind(node: ClusterNode, handle: str) -> None:
    """Bind a claim to a volume of the mock, and attach it with the metadata that the mock demands."""
    asked = {
        **MODE,
        "resources": {"requests": {"storage": "1Mi"}},
        "volumeName": f"pv-{handle}",
        "storageClassName": "",
    }
    claim = node.api.create(CLAIMS, {"metadata": {"name": f"claim-{handle}"}, "spec": asked})
    reference = {"namespace": "default", "name": f"claim-{handle}", "uid": claim["metadata"]["uid"]}
    made_of = {"driver": NAME, "volumeHandle": handle}
    spec = {"csi": made_of, "claimRef": reference, "capacity": {"storage": "1Mi"}, **MODE}
    node.api.create("/api/v1/persistentvolumes", {"metadata": {"name": f"pv-{handle}"}, "spec": spec})
    node.api.patch(f"{CLAIMS}/claim-{handle}/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Mi"}}})
    digest = hashlib.sha256(f"{handle}{NAME}{node.name}".encode()).hexdigest()
    source = {"persistentVolumeName": f"pv-{handle}"}
    attachment = {"attacher": NAME, "nodeName": node.name, "source": source}
    node.api.create(f"{STORAGE}/volumeattachments", {"metadata": {"name": f"csi-{digest}"}, "spec": attachment})
    status = {"attached": True, "attachmentMetadata": {"device": "mock-disk"}}
    node.api.patch(f"{STORAGE}/volumeattachments/csi-{digest}/status", {"status": status})


def test_two_pods_share_a_volume_of_the_mock(cluster_node: ClusterNode, mock: Mock) -> None:
    """Staged once, published to each, still there after kill -9 of the worker, and undone after the last."""
    path = f"{STORAGE}/csinodes/{cluster_node.name}"

    def counted(found: Any) -> bool:
        drivers = {one["name"]: one for one in found["spec"]["drivers"] or ()}
        return NAME in drivers and drivers[NAME]["allocatable"] == {"count": 2}

    cluster_node.api.until(path, counted, "the limit of the mock")
    bind(cluster_node, "1")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim-1"}}]
    for name in ("one", "two"):
        cluster_node.create_pod(pod_manifest(name, volumes=volumes))
        cluster_node.until_running(name)
    assert [one["call"] for one in mock.calls(*LIFE)] == ["NodeStageVolume", *["NodePublishVolume"] * 2]
    stage, first, second = (one["request"] for one in mock.calls(*LIFE))
    assert stage["publish_context"] == first["publish_context"] == {"device": "mock-disk"}
    assert first["staging_target_path"] == second["staging_target_path"] == stage["staging_target_path"]
    assert first["target_path"] != second["target_path"]
    assert Path(first["target_path"]).is_dir()
    cluster_node.stop("worker", signal.SIGKILL)
    cluster_node.start("worker")
    cluster_node.delete_all_pods()
    undone = [one["call"] for one in mock.calls(*LIFE[2:])]
    assert undone == ["NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    assert [one["error"] for one in mock.calls(*LIFE) if "error" in one] == []
    assert not Path(first["target_path"]).exists()
