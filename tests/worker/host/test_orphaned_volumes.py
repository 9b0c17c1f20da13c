"""Does the worker unmount what a lost pod has mounted, and is its folder left alone until then?"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.file_trees import remove_tree
from activities.node_services import NodeServices
from activities.volumes.orphaned_volumes import VolumesLeft, leave_to_worker, orphaned_volumes, unmark
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.volume_type import PodVolume
from activities.volumes.types import local, nfs
from proto.temporal.pod import PodKey
from tests.activities.volume_node import volume_services
from tests.activities.volumes.stand_ins import StandIns
from worker.host.orphaned_volumes import unmount_orphaned_volumes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
async def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NodeServices]:
    """Return a node with a mount.nfs; whatever is left mounted is undone."""
    programs = StandIns(tmp_path / "bin")
    programs.put("mount.nfs", f'exec mount --bind {tmp_path}/export "$2"')
    monkeypatch.setenv("PATH", f"{programs.folder}:{os.environ['PATH']}")
    for name in ("export", "folder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    async with volume_services(tmp_path) as made:
        yield made
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point), detach=True)


async def with_volumes(services: NodeServices, tmp_path: Path) -> Path:
    """Mount both volumes of a pod; answers its folder."""
    pod = PodKey("default", "web", "uid-1")
    source = {"server": "s", "path": "/x"}
    await nfs.TYPE.mount(PodVolume(pod, "server", source, {"spec": {}}, services))
    persistent = PersistentVolume(name="pv1", type="local", source={"path": str(tmp_path / "folder")})
    await local.PERSISTENT.mount(PodVolume(pod, "pv1", {}, {"spec": {}}, services), persistent)
    return services.paths(pod).directory


async def test_the_janitor_leaves_it_to_the_worker(services: NodeServices, tmp_path: Path) -> None:
    """Whose next look undoes it; then the folder goes, and what was mounted stays."""
    pod = await with_volumes(services, tmp_path)
    assert orphaned_volumes(pod) == [("local", "pv1", False), ("nfs", "server", False)]
    with pytest.raises(VolumesLeft, match=r"its volumes \(pv1, server\) are being unmounted"):
        leave_to_worker(pod)
    await unmount_orphaned_volumes(services)
    assert mounts.mounts_below(pod) == []
    leave_to_worker(pod)
    remove_tree(pod)
    assert (tmp_path / "export" / "file").exists()
    assert (tmp_path / "folder" / "file").exists()


async def test_a_pod_that_nobody_marked_is_left_alone(services: NodeServices, tmp_path: Path) -> None:
    """As is one that has come back, and mounts."""
    pod = await with_volumes(services, tmp_path)
    await unmount_orphaned_volumes(services)
    assert len(mounts.mounts_below(pod)) == 2
    with pytest.raises(VolumesLeft):
        leave_to_worker(pod)
    unmark(pod)
    await unmount_orphaned_volumes(services)
    assert len(mounts.mounts_below(pod)) == 2


async def test_one_that_does_not_go_is_told_and_the_others_go(
    services: NodeServices, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is tried again with the next look."""
    pod = await with_volumes(services, tmp_path)
    with pytest.raises(VolumesLeft):
        leave_to_worker(pod)
    held = os.open(pod / "volumes/kubernetes.io~nfs/server", os.O_RDONLY)
    try:
        await unmount_orphaned_volumes(services)
        assert mounts.mounts_below(pod) == [str(pod / "volumes/kubernetes.io~nfs/server")]
        assert "a volume could not be unmounted" in capsys.readouterr().out
    finally:
        os.close(held)
    await unmount_orphaned_volumes(services)
    assert mounts.mounts_below(pod) == []
