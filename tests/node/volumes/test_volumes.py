"""Does a container see its volumes on real containerd, do they survive its restart, and are they removed with their pod?"""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from activities.files.mounts import mounts_below
from tests.node.containerd_view import container_pid, containers_of, sandboxes_of
from tests.node.pod_story import log_lines, log_path, story
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def with_volumes(name: str, command: str, volumes: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Build a pod that mounts each volume at `/<its name>`."""
    manifest = pod_manifest(name, command, volumes=volumes, **spec)
    [container] = manifest["spec"]["containers"]
    container["volumeMounts"] = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    return manifest


def volumes_of(node: TempoletNode, uid: str) -> Path:
    """Return the kubelet's folder for a pod's volumes."""
    return node.root_dir / "pods" / uid / "volumes"


def test_an_empty_dir_is_shared_and_outlives_its_containers(node: TempoletNode) -> None:
    """The container reads the init container's files, also after a crash; they are removed with the pod."""
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
    node.take_away("shared")
    assert not folder.exists()


def test_a_host_path_of_another_type_keeps_its_pod_waiting(node: TempoletNode, tmp_path: Path) -> None:
    """With the kubelet's message in its status; once corrected, the pod runs, and the folder is kept. Other pods are not affected."""
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
    node.until(lambda: (there / "here").exists() and (there / "here").read_text(), "what the container wrote")
    told = story(node, snapshot)
    assert any("mounting volume host failed" in one and "FailedMount" in one for one in told)
    assert any(one.startswith("volume host already mounted") for one in told)
    node.take_away("mismatch")
    assert (there / "here").read_text() == "found\n"


def test_an_empty_dir_in_memory_has_its_size(node: TempoletNode) -> None:
    """A tmpfs with the sizeLimit; it is unmounted with the pod, also after a killed worker."""
    command = "df -k /data | tail -1; dd if=/dev/zero of=/data/big bs=1M count=3; sleep 3600"
    volumes = [{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}}]
    node.apply(with_volumes("memory", command, volumes))
    snapshot = node.until_running("memory")
    folder = volumes_of(node, snapshot.uid) / "kubernetes.io~empty-dir/data"
    log = log_path(node, snapshot)
    node.until(lambda: any("No space left" in one for one in log_lines(log)), "its tmpfs full")
    shown = node.until(lambda: [one for one in log_lines(log) if one.startswith("tmpfs")], "its size")
    assert shown[0].split()[:2] == ["tmpfs", "2048"]  # stdout and stderr arrive in any order
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.take_away("memory")
    assert not folder.exists()
    assert mounts_below(node.root_dir) == []


def test_host_paths_of_every_kind(node: TempoletNode, tmp_path: Path) -> None:
    """A file, a socket and a device keep their type inside; without a type, a missing path is created."""
    (tmp_path / "file").write_text("inside\n")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        kinds = {
            "file": (tmp_path / "file", "File"),
            "new": (tmp_path / "new", "FileOrCreate"),
            "folder": (tmp_path / "a/b", "DirectoryOrCreate"),
            "socket": (tmp_path / "socket", "Socket"),
            "null": (Path("/dev/null"), "CharDevice"),
            "any": (tmp_path / "any", ""),
        }
        volumes = [
            {"name": name, "hostPath": {"path": str(path), "type": kind}} for name, (path, kind) in kinds.items()
        ]
        command = "cat /file; for one in file new folder socket null any; do stat -c '%n %F' /$one; done; sleep 3600"
        node.apply(with_volumes("kinds", command, volumes))
        snapshot = node.until_running("kinds")
        expected = [
            "inside",
            "/file regular file",
            "/new regular empty file",
            "/folder directory",
            "/socket socket",
            "/null character special file",
            "/any directory",
        ]
        node.until(lambda: log_lines(log_path(node, snapshot)) == expected, "each as it is")


def test_a_mount_that_is_read_only(node: TempoletNode, tmp_path: Path) -> None:
    """Writes fail; with recursiveReadOnly also in mounts below it, as the status shows."""
    (tmp_path / "below").mkdir()
    mounts.mount("none", tmp_path / "below", "tmpfs")
    try:
        command = "for one in /plain /plain/below /deep /deep/below; do touch $one/x && echo $one; done; sleep 3600"
        manifest = pod_manifest("fixed", command, volumes=[{"name": "host", "hostPath": {"path": str(tmp_path)}}])
        manifest["spec"]["containers"][0]["volumeMounts"] = [
            {"name": "host", "mountPath": "/plain", "readOnly": True},
            {"name": "host", "mountPath": "/deep", "readOnly": True, "recursiveReadOnly": "Enabled"},
        ]
        node.apply(manifest)
        snapshot = node.until_running("fixed")
        log = log_path(node, snapshot)
        node.until(lambda: "/plain/below" in log_lines(log) and len(log_lines(log)) >= 4, "all four tried")
        assert [one for one in log_lines(log) if one.startswith("/")] == ["/plain/below"]
        [status] = snapshot.status["containerStatuses"]
        assert [one["recursiveReadOnly"] for one in status["volumeMounts"]] == ["Disabled", "Enabled"]
        node.take_away("fixed")
    finally:
        mounts.unmount(tmp_path / "below")


def test_a_volume_that_somebody_uses_holds_its_pod_up_and_no_other(node: TempoletNode) -> None:
    """The reason is reported, nothing is removed meanwhile, and the unmount is retried until it works."""
    volumes: list[dict[str, Any]] = [
        {"name": "busy", "emptyDir": {"medium": "Memory"}},
        {"name": "idle", "emptyDir": {}},
    ]
    node.apply(with_volumes("used", "echo kept > /busy/file; sleep 3600", volumes))
    snapshot = node.until_running("used")
    folder = volumes_of(node, snapshot.uid) / "kubernetes.io~empty-dir/busy"
    node.until(lambda: (folder / "file").exists() and (folder / "file").stat().st_size, "what the container wrote")
    with (folder / "file").open() as held:
        node.remove("used")
        waiting = node.until_pod("used", lambda one: one.reason == "FailedUnmount")
        assert waiting.message == (
            f"UnmountVolume.TearDown failed for volume \"busy\" : [Errno 16] Device or resource busy: '{folder}'"
        )
        node.apply(pod_manifest("unhurried"))
        node.until_running("unhurried")
        assert held.read() == "kept\n"
        assert not folder.with_name("idle").exists()
    node.until_gone("used")
    assert not folder.exists()
    told = story(node, snapshot)
    assert any("unmounting volumes busy, idle failed" in one and "FailedUnmount" in one for one in told)


def test_after_the_machine_was_down_volumes_in_memory_are_mounted_anew(node: TempoletNode) -> None:
    """The sandbox is new; files on disk are kept, those in memory are not."""
    volumes: list[dict[str, Any]] = [
        {"name": "fast", "emptyDir": {"medium": "Memory"}},
        {"name": "disk", "emptyDir": {}},
    ]
    node.apply(with_volumes("reboot", "echo up >> /fast/starts; echo up >> /disk/starts; sleep 3600", volumes))
    snapshot = node.until_running("reboot")
    folder = volumes_of(node, snapshot.uid) / "kubernetes.io~empty-dir"
    disk = folder / "disk/starts"
    node.until(lambda: disk.exists() and disk.read_text() == "up\n", "its first start")
    node.stop("worker", signal.SIGKILL)
    for container in containers_of(node.containerd, snapshot.uid):
        os.kill(container_pid(node.containerd, container.id), signal.SIGKILL)
    [(sandbox_id, _)] = sandboxes_of(node.containerd, snapshot.uid)
    os.kill(container_pid(node.containerd, sandbox_id), signal.SIGKILL)
    mounts.unmount(folder / "fast")
    node.start("worker")
    node.until(lambda: disk.read_text() == "up\nup\n", "its second start")
    assert (folder / "fast/starts").read_text() == "up\n"
    assert mounts.is_mount_point(folder / "fast")
    node.take_away("reboot")
    assert mounts_below(node.root_dir) == []


@pytest.mark.parametrize("after", [0.02, 0.1, 0.2])
def test_a_worker_killed_while_it_mounts_leaves_one_of_each(node: TempoletNode, after: float) -> None:
    """Each volume is mounted once, the pod runs, and nothing is left afterwards."""
    volumes: list[dict[str, Any]] = [{"name": f"m{number}", "emptyDir": {"medium": "Memory"}} for number in range(5)]
    name = f"killed-{round(after * 1000)}"
    manifest = with_volumes(name, "touch /m0/x; sleep 3600", volumes)
    manifest["metadata"]["uid"] = f"uid-of-{name}"  # to tell its folders from those of earlier pods
    node.apply(manifest)
    node.until(volumes_of(node, f"uid-of-{name}").exists, "its folders")
    time.sleep(after)  # however far the mounts are
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    snapshot = node.until_running(name)
    points = mounts_below(volumes_of(node, snapshot.uid))
    assert sorted(Path(one).name for one in points) == [one["name"] for one in volumes]
    node.take_away(name)
    assert mounts_below(node.root_dir) == []


def test_a_volume_is_the_fs_groups(node: TempoletNode) -> None:
    """The container writes to it as any user through its group, and new files have that group; the node's own folder is unchanged."""
    command = "id -G; stat -c '%g %a' /disk /fast; touch /disk/new && stat -c %g /disk/new; sleep 3600"
    volumes: list[dict[str, Any]] = [
        {"name": "disk", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory"}},
    ]
    security = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 4321}
    node.apply(with_volumes("grouped", command, volumes, securityContext=security))
    snapshot = node.until_running("grouped")
    node.until(lambda: len(log_lines(log_path(node, snapshot))) >= 4, "its words")
    assert log_lines(log_path(node, snapshot)) == ["1000 4321", "4321 2777", "4321 3777", "4321"]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """Return a folder of the node with shared mount propagation."""
    made = tmp_path / "shared"
    (made / "host").mkdir(parents=True)
    (made / "pod").mkdir()
    mounts.bind(made, made)
    mounts.mount("", made, flags=mounts.MountFlag.SHARED)
    yield made
    for point in mounts_below(made):
        mounts.unmount(Path(point))


def test_mounts_that_are_passed_on(node: TempoletNode, shared: Path) -> None:
    """Later mounts of the node appear inside with HostToContainer; those of a privileged container need Bidirectional."""
    volume = {"name": "host", "hostPath": {"path": str(shared)}}
    mount = {"name": "host", "mountPath": "/host"}
    manifest = pod_manifest("passed", volumes=[volume])
    [container] = manifest["spec"]["containers"]
    both = ["sh", "-c", "mount -t tmpfs none /host/pod && touch /host/pod/made; sleep 3600"]
    manifest["spec"]["containers"] = [
        {**container, "name": "private", "volumeMounts": [mount]},
        {**container, "name": "inward", "volumeMounts": [{**mount, "mountPropagation": "HostToContainer"}]},
        {
            **container,
            "name": "both",
            "command": both,
            "securityContext": {"privileged": True},
            "volumeMounts": [{**mount, "mountPropagation": "Bidirectional"}],
        },
    ]
    node.apply(manifest)
    snapshot = node.until_running("passed")
    node.until((shared / "pod/made").exists, "what the container has mounted")
    mounts.mount("none", shared / "host", "tmpfs")
    (shared / "host/made").touch()
    inside = {
        name: Path(f"/proc/{container_pid(node.containerd, one.container_id)}/root/host")
        for name, one in snapshot.containers.items()
    }
    seen = {name: [(root / place / "made").exists() for place in ("host", "pod")] for name, root in inside.items()}
    assert seen == {"private": [False, False], "inward": [True, True], "both": [True, True]}
    node.take_away("passed")
    assert (shared / "pod/made").exists()
