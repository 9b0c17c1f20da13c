"""Does a container find its volumes on real containerd, do they outlive it, and are they gone with their pod?"""

from pathlib import Path
from typing import Any

from tests.node.pod_story import story
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def with_volumes(name: str, command: str, volumes: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Write a pod that mounts each volume at `/<its name>`."""
    manifest = pod_manifest(name, command, volumes=volumes, **spec)
    [container] = manifest["spec"]["containers"]
    container["volumeMounts"] = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    return manifest


def volumes_of(node: TempoletNode, uid: str) -> Path:
    """Say where the kubelet keeps a pod's volumes."""
    return node.root_dir / "pods" / uid / "volumes"


def test_an_empty_dir_is_shared_and_outlives_its_containers(node: TempoletNode) -> None:
    """What the init container writes the container reads, also after a crash; it goes with the pod."""
    command = "cat /data/first; echo ran >> /data/runs; [ $(wc -l < /data/runs) -ge 2 ] || exit 1; sleep 3600"
    init = {
        "name": "init",
        "image": BUSYBOX,
        "command": ["sh", "-c", "stat -c %a /data > /data/first"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    node.apply(with_volumes("shared", command, [{"name": "data", "emptyDir": {}}], initContainers=[init]))
    snapshot = node.until_pod("shared", lambda one: one.restarts == 1 and one.ready, "running again")
    folder = volumes_of(node, snapshot.uid) / "kubernetes.io~empty-dir/data"
    node.until(lambda: (folder / "runs").read_text() == "ran\nran\n", "both runs in the same file")
    assert (folder / "first").read_text() == "777\n"
    [status] = snapshot.status["containerStatuses"]
    assert status["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    node.remove("shared")
    node.until(lambda: node.pod("shared") is None, "gone")
    assert not folder.exists()


def test_a_host_path_of_another_type_keeps_its_pod_waiting(node: TempoletNode, tmp_path: Path) -> None:
    """The kubelet's words stand in its status; made right, the pod runs, and its folder outlives it. Others are untouched."""
    there = tmp_path / "there"
    there.write_text("a file")
    volume = {"name": "host", "hostPath": {"path": str(there), "type": "Directory"}}
    node.apply(with_volumes("mismatch", "echo found > /host/here; sleep 3600", [volume]))
    node.apply(pod_manifest("beside"))
    waiting = node.until_pod("mismatch", lambda one: one.reason == "FailedMount")
    assert waiting.message == (
        f'MountVolume.SetUp failed for volume "host" : hostPath type check failed: {there} is not a directory'
    )
    assert waiting.phase == "Pending"
    node.until_running("beside")
    there.unlink()
    there.mkdir()
    snapshot = node.until_running("mismatch")
    node.until((there / "here").exists, "what the container wrote")
    told = story(node, snapshot)
    assert any("mounting volume host failed" in one and "FailedMount" in one for one in told)
    assert any(one.startswith("volume host found mounted") for one in told)
    node.remove("mismatch")
    node.until(lambda: node.pod("mismatch") is None, "gone")
    assert (there / "here").read_text() == "found\n"
