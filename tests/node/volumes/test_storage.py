"""Do pods on real containerd get folders, devices and NFS exports by claims and PersistentVolumes of the node?

The mount.nfs on the worker's PATH is a fake that bind-mounts a folder; devices are loop devices.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.files.mounts import mounts_below
from tests.activities.volumes.stand_ins import StandIns
from tests.node.kept_objects import put_object
from tests.node.pod_story import log_lines, log_path
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> StandIns:
    """Write a mount.nfs that bind-mounts a folder with one file."""
    made = StandIns(tmp_path_factory.mktemp("programs") / "bin")
    export = made.folder.parent / "export"
    export.mkdir()
    (export / "file").write_text("from the server\n")
    made.put("mount.nfs", f'exec mount --bind {export} "$2"')
    return made


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, temporal: TemporalServer, programs: StandIns
) -> Iterator[TempoletNode]:
    """Run a node with the fake programs on its PATH."""
    directory = tmp_path_factory.mktemp("storage")
    path, os.environ["PATH"] = os.environ["PATH"], f"{programs.folder}:{os.environ['PATH']}"
    try:
        with tempolet_node(directory, containerd, temporal) as made:
            yield made
    finally:
        os.environ["PATH"] = path


def claim(node: TempoletNode, name: str, source: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Write a claim and its volume; returns the pod's volume."""
    reference = {"namespace": "default", "name": name}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", **spec}
    size = {"requests": {"storage": "1Mi"}}
    volume = {**modes, **source, "capacity": {"storage": "1Mi"}, "claimRef": reference}
    put_object(node, "persistentvolumes", f"pv-{name}", spec=volume)
    put_object(node, "persistentvolumeclaims", name, spec={**modes, "volumeName": f"pv-{name}", "resources": size})
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def using(name: str, command: str, volume: dict[str, Any]) -> dict[str, Any]:
    """Build a pod that mounts a volume at /data."""
    manifest = pod_manifest(name, command, volumes=[volume])
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return manifest


def test_a_server_s_folder(node: TempoletNode, programs: StandIns) -> None:
    """Mounted by the node's mount.nfs, and unmounted; the file stays."""
    volume = {"name": "data", "nfs": {"server": "nfs.example", "path": "/export"}}
    node.apply(using("nfs", "cat /data/file; sleep 3600", volume))
    snapshot = node.until_running("nfs")
    node.until(lambda: log_lines(log_path(node, snapshot)) == ["from the server"], "what is on the server")
    assert programs.asked("mount.nfs")[-1].startswith("nfs.example:/export /")
    node.take_away("nfs")
    assert mounts_below(node.root_dir) == []
    assert (programs.folder.parent / "export" / "file").exists()


def test_a_server_that_refuses(node: TempoletNode, programs: StandIns) -> None:
    """FailedMount with its message; the pod runs once the server allows it."""
    working = (programs.folder / "mount.nfs").read_text()
    programs.put("mount.nfs", "echo access denied; exit 32")
    try:
        volume = {"name": "data", "nfs": {"server": "nfs.example", "path": "/export"}}
        node.apply(using("refused", "sleep 3600", volume))
        waiting = node.until_pod("refused", lambda one: one.reason == "FailedMount")
        assert 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32' in waiting.message
        assert "access denied" in waiting.message
    finally:
        (programs.folder / "mount.nfs").write_text(working)
    node.until_running("refused")
    node.take_away("refused")


def test_a_folder_of_the_node_by_a_claim(node: TempoletNode, tmp_path: Path) -> None:
    """What the pod writes is kept."""
    volume = claim(node, "folder", {"local": {"path": str(tmp_path)}})
    node.apply(using("folder", "echo written > /data/file; sleep 3600", volume))
    node.until_running("folder")
    node.until(lambda: (tmp_path / "file").exists() and (tmp_path / "file").read_text(), "what the container wrote")
    node.take_away("folder")
    assert (tmp_path / "file").read_text() == "written\n"
    assert mounts_below(node.root_dir) == []


def test_a_device_of_the_node_by_a_claim(node: TempoletNode, device: Path) -> None:
    """Formatted, mounted, and detached with its pod."""
    volume = claim(node, "disk", {"local": {"path": str(device)}})
    node.apply(using("disk", "grep ' /data ' /proc/mounts | cut -d' ' -f3; sleep 3600", volume))
    snapshot = node.until_running("disk")
    node.until(lambda: log_lines(log_path(node, snapshot)) == ["ext4"], "the file system")
    node.take_away("disk")
    assert mounts_below(node.root_dir) == []


def test_a_device_as_a_device(node: TempoletNode, device: Path) -> None:
    """With volumeDevices the container has it at the given path, and may write."""
    volume = claim(node, "block", {"local": {"path": str(device)}}, volumeMode="Block")
    manifest = pod_manifest("block", "echo marked | dd of=/dev/mine conv=notrunc; sleep 3600", volumes=[volume])
    [container] = manifest["spec"]["containers"]
    del container["volumeMounts"]
    container["volumeDevices"] = [{"name": "data", "devicePath": "/dev/mine"}]
    node.apply(manifest)
    node.until_running("block")
    node.until(lambda: device.read_bytes()[:6] == b"marked", "what the container wrote on the device")
    node.take_away("block")
