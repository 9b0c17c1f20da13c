"""Are a pod's volumes found and measured as by the kubelet, without accessing any that may hang?"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from activities.files.pod_paths import CLAIMS
from activities.volumes.quotas.quotas import assign_quota
from tests.activities.volumes.quotas.counted_disk import CountedDisk
from worker.stats.disks.pod_files import PodFiles
from worker.stats.disks.volumes import Volumes, volumes_of

UID = "u1"


def pod(*volumes: dict[str, Any]) -> dict[str, Any]:
    """Return a pod with these volumes, all of which its container mounts."""
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    return {
        "metadata": {"uid": UID, "namespace": "default", "name": "web"},
        "spec": {"volumes": list(volumes), "containers": [{"name": "main", "volumeMounts": mounts}]},
    }


def folder_of(root: Path, plugin: str, name: str) -> Path:
    """Create a volume's folder."""
    folder = root / "pods" / UID / "volumes" / plugin / name
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("volume", "plugin", "is_local"),
    [
        pytest.param({"emptyDir": {}}, "kubernetes.io~empty-dir", True, id="emptyDir"),
        pytest.param({"emptyDir": {"medium": "Memory"}}, "kubernetes.io~empty-dir", False, id="memory-is-no-disk"),
        pytest.param({"configMap": {"name": "x"}}, "kubernetes.io~configmap", True, id="configMap"),
        pytest.param({"secret": {"secretName": "x"}}, "kubernetes.io~secret", False, id="secret"),
        pytest.param({"projected": {"sources": []}}, "kubernetes.io~projected", False, id="projected"),
    ],
)
async def test_what_the_node_writes_is_counted(
    volume: dict[str, Any], plugin: str, is_local: bool, tmp_path: Path
) -> None:
    """File by file, and counted as the pod's ephemeral storage where the kubelet does."""
    folder = folder_of(tmp_path, plugin, "v")
    (folder / "file").write_bytes(b"x" * 10_000)
    os.sync()
    (found,) = volumes_of(tmp_path, pod({"name": "v", **volume}), frozenset())
    assert (found.is_local, found.claim) == (is_local, "")
    use = (await Volumes().measure([found]))[found]
    assert 10_000 <= use.used < 40_000
    assert use.inodes_used == 2
    assert use.capacity >= use.available > 0


@pytest.mark.parametrize(
    ("gate", "host_users", "fails", "by_quota"),
    [
        pytest.param(True, False, "", True, id="by-its-quota"),
        pytest.param(True, False, "use_of", False, id="a-process-that-may-not-ask-counts"),
        pytest.param(True, None, "", False, id="the-nodes-users"),
        pytest.param(False, False, "", False, id="the-gate-is-off"),
    ],
)
async def test_a_project_quota_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: bool, host_users: bool | None, fails: str, by_quota: bool
) -> None:
    """It counts what walking does not see, here a file of the volume's project elsewhere."""
    disk = CountedDisk(tmp_path, tmp_path / "etc")
    disk.put(monkeypatch)
    folder = folder_of(tmp_path, "kubernetes.io~empty-dir", "v")
    assign_quota(folder, limited=True)
    (tmp_path / "unlinked").write_bytes(b"x" * 100_000)
    disk.projects[(tmp_path / "unlinked").stat().st_ino] = disk.projects[folder.stat().st_ino]
    disk.fails = fails
    os.sync()
    wanted = pod({"name": "v", "emptyDir": {}})
    wanted["spec"] |= {} if host_users is None else {"hostUsers": host_users}
    (found,) = volumes_of(tmp_path, wanted, frozenset(), quotas=gate)
    use = (await Volumes().measure([found]))[found]
    assert (use.used >= 100_000, use.inodes_used) == (by_quota, 2 if by_quota else 1)


def test_hostpaths_and_devices_are_not_told(tmp_path: Path) -> None:
    """A hostPath is not a volume of its own, and a device has no files."""
    claim = {"name": "dev", "persistentVolumeClaim": {"claimName": "c"}}
    assert list(volumes_of(tmp_path, pod({"name": "h", "hostPath": {"path": "/"}}, claim), frozenset())) == []


@pytest.mark.parametrize(
    ("plugin", "place"),
    [pytest.param("kubernetes.io~csi", "pv-1/mount", id="csi"), pytest.param("kubernetes.io~nfs", "pv-1", id="nfs")],
)
def test_a_claims_volume_is_found_by_what_it_has_brought(plugin: str, place: str, tmp_path: Path) -> None:
    """By its record, and only while it is mounted: its folder is not accessed."""
    folder = folder_of(tmp_path, plugin, place)
    record = tmp_path / "pods" / UID / CLAIMS / "data"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"type": "nfs", "name": "pv-1", "block": False}))
    (folder.parent / "vol_data.json").write_text(json.dumps({"driverName": "d", "volumeHandle": "h"}))
    wanted = pod({"name": "data", "persistentVolumeClaim": {"claimName": "claim"}})
    (found,) = volumes_of(tmp_path, wanted, {str(folder)})
    assert (found.folder, found.claim, found.is_written, found.is_local) == (folder, "claim", False, False)
    assert list(volumes_of(tmp_path, wanted, frozenset())) == []


def test_pods_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    """Incomplete and removed files are skipped."""
    file = tmp_path / "pods" / UID / "pod.json"
    file.parent.mkdir(parents=True)
    pods = PodFiles(tmp_path)
    assert pods.all() == []
    file.write_text(json.dumps(pod()))
    (first,) = pods.all()
    assert pods.all()[0] is first
    file.write_text(json.dumps(pod({"name": "v", "emptyDir": {}})))
    os.utime(file, ns=(1, 1))
    assert pods.all()[0].pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    unused = pod({"name": "v", "emptyDir": {}})
    unused["spec"]["volumes"].append({"name": "unused", "secret": {"secretName": "x"}})
    file.write_text(json.dumps(unused))
    os.utime(file, ns=(2, 2))
    assert [one["name"] for one in pods.all()[0].pod["spec"]["volumes"]] == ["v"], "nobody wants the other one"
    del unused["spec"]["containers"][0]["volumeMounts"]
    file.write_text(json.dumps(unused))
    os.utime(file, ns=(3, 3))
    assert len(pods.all()[0].pod["spec"]["volumes"]) == 2, (
        "an earlier release kept no mounts of a standalone node's pods"
    )
    file.write_text("{")
    assert pods.all([UID, "other"]) == []
