"""Does a container on real containerd see the subPath of a volume, and never a path of the host?"""

from pathlib import Path
from typing import Any

from activities.files.mounts import mounts_below
from tests.node.pod_story import log_lines, log_path
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest

DATA = {"name": "data", "emptyDir": {}}


def mount(**fields: Any) -> dict[str, Any]:
    """Mount the volume at /seen."""
    return {"name": "data", "mountPath": "/seen", **fields}


def prepared(name: str, preparation: str, command: str, seen: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Build a pod whose init container prepares the volume at /data, and whose container mounts a path of it."""
    init = {
        "name": "init",
        "image": BUSYBOX,
        "command": ["sh", "-c", preparation],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    manifest = pod_manifest(name, command, **{"volumes": [DATA], "initContainers": [init], **spec})
    manifest["spec"]["containers"][0]["volumeMounts"] = [seen]
    return manifest


def test_a_sub_path_is_seen_written_and_given_back(node: TempoletNode) -> None:
    """By subPathExpr, created with the volume's mode; the same after a crash, and unmounted with its pod."""
    command = "stat -c %a /seen; echo $NAME >> /seen/runs; [ $(wc -l < /seen/runs) -ge 2 ] || exit 1; sleep 3600"
    manifest = prepared("expression", "true", command, mount(subPathExpr="logs/$(NAME)"))
    manifest["spec"]["containers"][0]["env"] = [{"name": "NAME", "value": "web-0"}]
    node.apply(manifest)
    snapshot = node.until_pod("expression", lambda one: one.restarts == 1 and one.ready, "running again")
    pod_dir = node.root_dir / "pods" / snapshot.uid
    runs = pod_dir / "volumes/kubernetes.io~empty-dir/data/logs/web-0/runs"
    node.until(lambda: runs.read_text() == "web-0\nweb-0\n", "both runs in the volume itself")
    assert log_lines(log_path(node, snapshot)) == ["777"]
    assert mounts_below(pod_dir) == [str(pod_dir / "volume-subpaths/data/main/0")]
    node.take_away("expression")
    node.until(lambda: not pod_dir.exists(), "its directory gone")  # after the record in it, which identifies it


def test_a_file_is_seen_alone_and_read_only(node: TempoletNode) -> None:
    """The rest of the volume is not visible."""
    command = "cat /seen; echo x >> /seen || echo refused; sleep 3600"
    node.apply(prepared("file", "echo inside > /data/file", command, mount(subPath="file", readOnly=True)))
    snapshot = node.until_running("file")
    node.until(lambda: "refused" in log_lines(log_path(node, snapshot)), "that it may not write")
    assert "inside" in log_lines(log_path(node, snapshot))  # stdout and stderr arrive in any order


def test_a_link_out_of_the_volume_keeps_the_container_from_starting(node: TempoletNode, tmp_path: Path) -> None:
    """With the kubelet's message, which discloses nothing of the host, where nothing is created."""
    node.apply(prepared("outward", f"ln -s {tmp_path} /data/link", "sleep 3600", mount(subPath="link/new")))
    waiting = node.until_pod("outward", lambda one: one.reason == "CreateContainerConfigError")
    assert 'failed to prepare subPath for volumeMount "data" of container "main"' in waiting.message
    assert str(tmp_path) not in waiting.message
    assert list(tmp_path.iterdir()) == []


def test_an_expression_without_its_variable_is_told(node: TempoletNode) -> None:
    """The container waits, and reports the variable."""
    node.apply(prepared("missing", "true", "sleep 3600", mount(subPathExpr="$(NAME)")))
    waiting = node.until_pod("missing", lambda one: one.reason == "CreateContainerConfigError")
    assert "missing value for NAME" in waiting.message
