"""Can root in a container reach the node through its volumes, and does a worker's death leave anything behind, on real containerd?"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from activities.files import mounts
from activities.files.mounts import mounts_below
from tests.activities.volumes.flipping_container import flipping
from tests.node.kept_objects import put_object
from tests.node.pod_story import log_lines, log_path, until_logged
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

HOST: Final = "of-the-host"


def ten_volumes(name: str, outside: Path) -> dict[str, Any]:
    """Build a pod with ten volumes of every kind that is mounted, one of them with a subPath, and a folder of the node."""
    volumes: list[dict[str, Any]] = [
        *({"name": f"m{number}", "emptyDir": {"medium": "Memory"}} for number in range(4)),
        *({"name": f"d{number}", "emptyDir": {}} for number in range(2)),
        {"name": "secret", "secret": {"secretName": "ten"}},
        {"name": "config", "configMap": {"name": "ten"}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "ten"}}, {"configMap": {"name": "ten"}}]}},
        {"name": "host", "hostPath": {"path": str(outside)}},
    ]
    manifest = pod_manifest(name, volumes=volumes)
    whole = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    parts = [{"name": one, "mountPath": f"/part-{one}", "subPath": "part"} for one in ("m0", "d0", "host")]
    manifest["spec"]["containers"][0]["volumeMounts"] = [*whole, *parts]
    return manifest


@pytest.fixture
def outside(node: TempoletNode, tmp_path: Path) -> Path:
    """Return a folder of the node that must not change, and write the objects of a pod with ten volumes."""
    put_object(node, "secrets", "ten", stringData={"s": "secret"})
    put_object(node, "configmaps", "ten", data={"c": "config"})
    return precious(tmp_path)


def precious(above: Path) -> Path:
    """Create a folder of the node, and one in it, each with a file."""
    folder = above / "precious"
    (folder / "part").mkdir(parents=True)
    for place in (folder, folder / "part"):
        (place / "file").write_text(HOST)
    return folder


def is_whole(outside: Path) -> bool:
    """Return whether its files are unchanged."""
    return [(place / "file").read_text() for place in (outside, outside / "part")] == [HOST, HOST]


@pytest.mark.parametrize("after", [0.03, 0.15, 0.3])
def test_a_worker_killed_while_it_unmounts_forgets_nothing(node: TempoletNode, outside: Path, after: float) -> None:
    """The next worker continues: no mount, file or folder of the pod is left, and nothing was deleted through a mount."""
    name = f"ends-{round(after * 1000)}"
    node.apply(ten_volumes(name, outside))
    snapshot = node.until_running(name)
    pod_dir = node.root_dir / "pods" / snapshot.uid
    mounted = len(mounts_below(pod_dir))
    assert mounted >= 8
    node.remove(name)
    node.until(lambda: len(mounts_below(pod_dir)) < mounted, "its unmounting begun")
    node.stop("worker", signal.SIGKILL)
    time.sleep(after)  # let pending system calls finish
    node.start("worker")
    node.until_gone(name)
    node.until(lambda: not pod_dir.exists(), "its directory gone")
    assert mounts_below(node.root_dir) == []
    assert is_whole(outside)


@pytest.mark.parametrize("after", [0.02, 0.1, 0.2])
def test_a_worker_killed_while_ten_volumes_are_mounted(node: TempoletNode, outside: Path, after: float) -> None:
    """The pod is deleted before the next worker starts: nothing is left, however far the mounts had come."""
    name = f"begins-{round(after * 1000)}"
    manifest = ten_volumes(name, outside)
    manifest["metadata"]["uid"] = f"uid-of-{name}"
    node.apply(manifest)
    pod_dir = node.root_dir / "pods" / f"uid-of-{name}"
    node.until((pod_dir / "volumes").exists, "its volumes begun")
    time.sleep(after)  # however far the mounts are
    node.stop("worker", signal.SIGKILL)
    node.remove(name)
    node.start("worker")
    node.until_gone(name)
    node.until(lambda: not pod_dir.exists(), "its directory gone")
    assert mounts_below(node.root_dir) == []
    assert is_whole(outside)


@pytest.fixture
def shared_node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node whose folder is a shared mount, as the root is under systemd; no mount is left of it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    mounts.bind(folder, folder)
    mounts.mount("", folder, flags=mounts.MountFlag.SHARED)
    try:
        with tempolet_node(folder, containerd, temporal) as made:
            yield made
    finally:
        for point in mounts_below(folder):
            mounts.unmount(Path(point), detach=True)
        mounts.unmount(folder)


def test_what_a_privileged_container_mounts_in_its_volume(shared_node: TempoletNode, tmp_path: Path) -> None:
    """A folder of the node, bind-mounted into its emptyDir and so propagated to the node: reported, and nothing in it is deleted."""
    outside, node = precious(tmp_path), shared_node
    manifest = pod_manifest("binds", "mkdir /data/in && mount --bind /outside /data/in && echo done; sleep 3600")
    manifest["spec"]["volumes"] = [
        {"name": "data", "emptyDir": {}},
        {"name": "outside", "hostPath": {"path": str(outside)}},
    ]
    manifest["spec"]["containers"][0] |= {
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data", "mountPropagation": "Bidirectional"},
            {"name": "outside", "mountPath": "/outside"},
        ],
    }
    node.apply(manifest)
    snapshot = node.until_running("binds")
    log = log_path(node, snapshot)
    node.until(lambda: log_lines(log) == ["done"], "its mount")
    inside = node.root_dir / "pods" / snapshot.uid / "volumes/kubernetes.io~empty-dir/data/in"
    node.until(lambda: str(inside) in mounts_below(node.root_dir), "its mount on the node")
    node.remove("binds")
    waiting = node.until_pod("binds", lambda one: one.reason == "FailedUnmount")
    assert f"{inside} is still mounted; unmount it, and the removal continues by itself" in waiting.message
    assert is_whole(outside)
    mounts.unmount(inside)
    node.until_gone("binds")
    assert is_whole(outside)


def test_a_path_that_is_flipped_while_containers_mount_it(node: TempoletNode, outside: Path) -> None:
    """A folder and a link to the host are swapped 10,000 times; containers restart continuously, and see only the volume."""
    data = {"name": "data", "mountPath": "/data"}
    see = {"image": BUSYBOX, "command": ["sh", "-c", "cat /seen/file >>/data/all; exit 1"]}
    part = {"name": "data", "mountPath": "/seen", "subPath": "path"}
    manifest = pod_manifest("flips", volumes=[{"name": "data", "emptyDir": {}}])
    manifest["spec"]["containers"] = [{**see, "name": f"sees-{one}", "volumeMounts": [data, part]} for one in range(4)]
    prepare = "mkdir /data/path; echo inside >/data/path/file"
    make = {"name": "make", "image": BUSYBOX, "command": ["sh", "-c", prepare], "volumeMounts": [data]}
    manifest["spec"]["initContainers"] = [make]
    node.apply(manifest)
    snapshot = node.until_pod("flips", lambda one: one.phase == "Running", "begun")
    volume = node.root_dir / "pods" / snapshot.uid / "volumes/kubernetes.io~empty-dir/data"
    (volume / "link").symlink_to(outside)
    node.until((volume / "all").exists, "the first of them has begun")
    with flipping(volume / "path", volume / "link"):
        seen = node.until(lambda: len(found := (volume / "all").read_text().split()) > 12 and found, "12 starts", 180)
    assert set(seen) == {"inside"}
    assert is_whole(outside)


def test_root_in_a_container_changes_no_volume_that_the_node_refreshes(node: TempoletNode, outside: Path) -> None:
    """CVE-2017-1002102: a link in the place of `..data` would have the next refresh delete files of the node."""
    tries = (f"ln -sfn {outside} $v/..data", "mkdir $v/..made", "rm $v/*", "echo x >$v/made", "mv $v/..data $v/moved")
    attacks = "; ".join(f"{one} && echo changed" for one in tries)
    command = f"for v in /secret /config /all; do mount -o remount,rw $v && echo changed; {attacks}; done; echo told; sleep 3600"
    volumes = [
        {"name": "secret", "secret": {"secretName": "ten"}},
        {"name": "config", "configMap": {"name": "ten"}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "ten"}}, {"configMap": {"name": "ten"}}]}},
    ]
    manifest = pod_manifest("refreshed", command, volumes=volumes)
    manifest["spec"]["containers"][0]["volumeMounts"] = [
        {"name": one, "mountPath": f"/{one}"} for one in ("secret", "config", "all")
    ]
    node.apply(manifest)
    snapshot = node.until_running("refreshed")
    assert "changed" not in until_logged(node, log_path(node, snapshot), "told")
    put_object(node, "configmaps", "ten", data={"c": "another"})
    shown = node.root_dir / "pods" / snapshot.uid / "volumes" / "kubernetes.io~projected" / "all" / "c"
    node.until(lambda: shown.read_text() == "another", "the refreshed file")
    assert is_whole(outside)
    node.take_away("refreshed")
