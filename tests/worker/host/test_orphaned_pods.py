"""Does the worker undo what only it can undo of a lost pod: its cgroup and its volumes?"""

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.file_trees import remove_tree
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.pods.orphan_mark import is_marked, mark, unmark
from activities.sandbox.sandbox import prepare_sandbox
from activities.volumes.orphaned_volumes import held_volumes, orphaned_volumes
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.volume_type import PodVolume
from activities.volumes.types import local, nfs
from proto.kubernetes.resources.qos import QosClass
from proto.temporal.pod import PodKey
from tests.activities.volume_node import volume_services
from tests.activities.volumes.stand_ins import StandIns
from tests.node.acting import sandbox_spec
from tests.patience import PATIENCE
from worker.host.orphaned_pods import undo_orphaned_pods

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
    assert held_volumes(pod) == ["pv1", "server"]
    mark(pod)
    cleaned: list[tuple[int, int]] = []
    await undo_orphaned_pods(services, lambda *counts: cleaned.append(counts))
    assert cleaned == [(1, 0)]
    assert mounts.mounts_below(pod) == []
    assert held_volumes(pod) == []
    remove_tree(pod)
    assert (tmp_path / "export" / "file").exists()
    assert (tmp_path / "folder" / "file").exists()


async def test_a_pod_that_nobody_marked_is_left_alone(services: NodeServices, tmp_path: Path) -> None:
    """As is one that has come back, and mounts."""
    pod = await with_volumes(services, tmp_path)
    await undo_orphaned_pods(services)
    assert len(mounts.mounts_below(pod)) == 2
    mark(pod)
    unmark(pod)
    await undo_orphaned_pods(services)
    assert len(mounts.mounts_below(pod)) == 2


async def test_one_that_does_not_go_is_told_and_the_others_go(
    services: NodeServices, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is tried again with the next look."""
    pod = await with_volumes(services, tmp_path)
    mark(pod)
    held = os.open(pod / "volumes/kubernetes.io~nfs/server", os.O_RDONLY)
    cleaned: list[tuple[int, int]] = []
    try:
        await undo_orphaned_pods(services, lambda *counts: cleaned.append(counts))
        assert cleaned == [(1, 1)]
        assert mounts.mounts_below(pod) == [str(pod / "volumes/kubernetes.io~nfs/server")]
        assert "a volume could not be unmounted" in capsys.readouterr().out
    finally:
        os.close(held)
    await undo_orphaned_pods(services)
    assert mounts.mounts_below(pod) == []


def somebodys_process() -> "subprocess.Popen[bytes]":
    """Start a process of another user."""
    return subprocess.Popen(["sleep", "1000"], user=1000)


async def test_what_runs_in_its_cgroup_is_killed(services: NodeServices) -> None:
    """Also as another user; a pod that is started again loses its mark before its cgroup is made."""
    root = f"/tplorphaned-{os.getpid()}"
    pod, cgroups = PodKey("default", "web", "uid-1"), Cgroups(root)
    node, folder = replace(services, cgroups=cgroups), services.paths(pod).directory
    cgroups.make_tiers()
    mark(folder)
    prepare_sandbox(node, pod, sandbox_spec(pod), 0)
    assert not is_marked(folder)
    cgroup = cgroups.pod_cgroup(pod.uid, QosClass.BEST_EFFORT)
    with somebodys_process() as process:
        try:
            for one in filter(Path.is_dir, Hierarchies.of_this_node().folders(cgroup)):
                (one / "cgroup.procs").write_text(str(process.pid))
            await undo_orphaned_pods(node)
            assert process.poll() is None
            mark(folder)
            await undo_orphaned_pods(node)
            assert process.wait(PATIENCE) == -signal.SIGKILL
            await undo_orphaned_pods(node)
            assert cgroups.pods_left() == set()
        finally:
            process.kill()
    cgroups.remove_tiers()
    for one in filter(Path.is_dir, Hierarchies.of_this_node().folders(root)):
        one.rmdir()
