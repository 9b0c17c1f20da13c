"""Are orphaned pods removed, and never one that may still be wanted?"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.execution.pod_locks import PodLocks
from activities.files import mounts
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.pods.orphan_mark import is_marked
from proto.cri.labels import POD_GRACE
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources
from proto.temporal.pod import PodKey
from tests.activities.volume_node import volume_services
from tests.worker.poller.runtime.fake_runtime import FakeRuntime, container, sandbox
from tests.worker.poller.snapshots import snapshot
from worker.daemon.config import NodeConfig
from worker.host.orphaned_pods import undo_orphaned_pods
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.poller.runtime.orphaned_pods import LeftToWorkerError, OrphanedPods, remover
from worker.poller.runtime.relist import only_remembered, our_pods


class Records:
    """Temporal's records: which workflows are open, if it answers."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.away = False
        self.starts = PodLocks()

    async def is_open(self, workflow_id: str) -> bool:
        """Answer as PodWorkflows does."""
        if self.away:
            raise TemporalUnavailable("away")
        return workflow_id in self.open


class OrphanNode:
    """A runtime with one orphaned pod, and what removes it."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime, self.records = runtime, Records()
        self.client = RuntimeClient(runtime.endpoint, StartLimit(1))
        self.cleaned: list[PodKey] = []
        self.listed: set[str] = set()
        self.orphaned_pods = OrphanedPods(
            self.client,
            self.records,  # type: ignore[arg-type]  # plays PodWorkflows
            self.clean,
            self.listed.__contains__,
        )

    def clean(self, pod: PodKey) -> None:
        """Play the function that removes files."""
        self.runtime.during("remove files")
        self.cleaned.append(pod)

    async def look(self, *, open_uids: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> None:
        """Look once, and finish the removals."""
        pods = our_pods("n", list(self.runtime.sandboxes.values()), list(self.runtime.containers.values()))
        await self.orphaned_pods.look(pods.values(), open_uids, wanted)
        begun = [task for task in asyncio.all_tasks() if task.get_name().startswith("remove ")]
        await asyncio.gather(*begun)


@pytest.fixture
async def orphan_node(tmp_path: Path) -> AsyncIterator[OrphanNode]:
    """Create it: container c1 runs in sandbox s1 of pod u1."""
    runtime = FakeRuntime(tmp_path / "cri.sock")
    await runtime.start()
    runtime.add(sandbox("u1", "s1"), container("c1", "s1"), container("c0", "s1", running=False))
    node = OrphanNode(runtime)
    yield node
    await node.orphaned_pods.close()
    await node.client.close()
    await runtime.stop()


async def test_what_was_seen_twice_is_stopped_then_removed(orphan_node: OrphanNode) -> None:
    """Once may be a start or an end under way."""
    await orphan_node.look()
    assert orphan_node.runtime.stopped == []
    await orphan_node.look()
    assert orphan_node.runtime.stopped == ["c1 within 30", "s1"]
    assert (orphan_node.runtime.sandboxes, orphan_node.runtime.containers) == ({}, {})
    assert [one.uid for one in orphan_node.cleaned] == ["u1"], "its snapshot would hold up a successor for ever"


async def test_a_pod_of_which_only_folders_are_left(orphan_node: OrphanNode) -> None:
    """The runtime's root was lost, or the last step of its workflow: logs and volumes go, too."""
    known = {uid: snapshot(uid) for uid in ("u1", "u2")}
    pods = our_pods("n", list(orphan_node.runtime.sandboxes.values()), [])
    left = only_remembered(pods, known)
    assert list(left) == ["u2"], "the runtime still has the other one"
    await orphan_node.orphaned_pods.look(left.values(), (), ())
    assert orphan_node.cleaned == []
    await orphan_node.orphaned_pods.look(left.values(), (), ())
    await asyncio.gather(*[one for one in asyncio.all_tasks() if one.get_name().startswith("remove ")])
    assert orphan_node.cleaned == [PodKey("default", "web", "u2")]


async def test_its_own_grace_is_granted(orphan_node: OrphanNode) -> None:
    """The container carries it as an annotation."""
    orphan_node.runtime.containers["c1"].annotations[POD_GRACE] = "7"
    await orphan_node.look()
    await orphan_node.look()
    assert orphan_node.runtime.stopped[0] == "c1 within 7"


async def test_twice_means_twice_in_a_row(orphan_node: OrphanNode) -> None:
    """A pod that was wanted in between starts over."""
    await orphan_node.look()
    await orphan_node.look(wanted=("u1",))
    await orphan_node.look()
    assert orphan_node.runtime.stopped == []


@pytest.mark.parametrize(
    ("open_uids", "wanted"),
    [
        pytest.param(("u1",), (), id="its-workflow-is-open"),
        pytest.param((), ("u1",), id="a-manifest-lists-it"),
    ],
)
async def test_what_somebody_cares_for_stays(
    orphan_node: OrphanNode, open_uids: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    """However often it is seen."""
    for _ in range(3):
        await orphan_node.look(open_uids=open_uids, wanted=wanted)
    assert orphan_node.runtime.stopped == []


async def test_the_record_itself_has_the_last_word(orphan_node: OrphanNode) -> None:
    """Visibility lags, and an unavailable Temporal confirms nothing."""
    orphan_node.records.open = {"pod/n/default/web/u1"}
    for _ in range(3):
        await orphan_node.look()
    orphan_node.records.away = True
    await orphan_node.look()
    assert orphan_node.runtime.stopped == []


WHOLE: Final = ["c1 within 30", "s1", "files"]


@pytest.mark.parametrize(
    ("during", "done"),
    [
        pytest.param("StopContainer", WHOLE[:1], id="while-its-containers-have-their-grace"),
        pytest.param("StopPodSandbox", WHOLE[:2], id="while-its-sandbox-is-stopped"),
        pytest.param("remove files", WHOLE, id="while-its-files-are-removed"),
    ],
)
@pytest.mark.parametrize("by", ["manifest", "workflow"])
async def test_a_pod_that_comes_back_in_between_loses_nothing_more(
    orphan_node: OrphanNode, during: str, done: list[str], by: str
) -> None:
    """The removal ends with the step that was under way: sandbox, folders and so its emptyDirs stay for the workflow."""

    def come_back(step: str) -> None:
        if step == during and by == "manifest":
            orphan_node.listed.add("u1")
        elif step == during:
            orphan_node.records.open.add("pod/n/default/web/u1")

    orphan_node.runtime.during = come_back
    await orphan_node.look()
    await orphan_node.look()
    assert [*orphan_node.runtime.stopped, *["files" for _ in orphan_node.cleaned]] == done
    assert list(orphan_node.runtime.sandboxes) == ["s1"]
    await orphan_node.look()
    assert list(orphan_node.runtime.sandboxes) == ["s1"]


async def test_a_start_waits_for_the_step_under_way(orphan_node: OrphanNode) -> None:
    """Else the workflow would mount into the folder that is being removed at that moment."""
    loop, order = asyncio.get_running_loop(), list[str]()
    starts: list[asyncio.Task[None]] = []

    async def start() -> None:
        async with orphan_node.records.starts.hold("pod/n/default/web/u1"):
            order.append("started")

    def come_back(step: str) -> None:
        if step == "remove files":  # in a thread: the loop turns, so a start without a lock would be through
            orphan_node.listed.add("u1")
            loop.call_soon_threadsafe(lambda: starts.append(loop.create_task(start())))
            for _ in range(3):
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
            order.append("removed")

    orphan_node.runtime.during = come_back
    await orphan_node.look()
    await orphan_node.look()
    await asyncio.gather(*starts)
    assert order == ["removed", "started"]


async def test_a_removal_that_failed_is_tried_again(orphan_node: OrphanNode) -> None:
    """The runtime went away in the middle of it."""
    await orphan_node.look()
    await orphan_node.runtime.stop()
    await orphan_node.look()
    assert "s1" in orphan_node.runtime.sandboxes
    await orphan_node.runtime.start()
    async with asyncio.timeout(20):
        while orphan_node.runtime.sandboxes:
            await orphan_node.look()
            await asyncio.sleep(0.1)  # the connection is made again in its own time


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
async def test_what_a_forgotten_pod_still_holds_is_left_to_the_worker(tmp_path: Path) -> None:
    """The poller may neither kill nor unmount: cgroup and volumes in memory go first, then the folders with all that is on disk."""
    root = f"/tplorphan-{os.getpid()}"
    pod, config = (
        PodKey("default", "web", "u1"),
        NodeConfig("node-1", root_dir=tmp_path, pod_logs_dir=tmp_path / "logs", cgroup_root=root),
    )
    folder, cgroups = tmp_path / "pods/u1", Cgroups(root)
    volumes = folder / "volumes/kubernetes.io~empty-dir"
    (volumes / "disk/folder").mkdir(parents=True)
    (volumes / "memory").mkdir()
    mounts.mount("tmpfs", volumes / "memory", "tmpfs")
    (volumes / "memory/file").touch()
    try:
        cgroups.make_tiers()
        cgroups.make_pod("u1", QosClass.BURSTABLE, PodResources(cpu_shares=2))
        with pytest.raises(LeftToWorkerError, match="its cgroup, memory"):
            remover(config)(pod)
        assert is_marked(folder)
        async with volume_services(tmp_path) as services:
            worker = replace(services, cgroups=cgroups, settings=replace(services.settings, root_dir=tmp_path))
            await undo_orphaned_pods(worker)
        remover(config)(pod)
        assert not folder.exists()
    finally:
        mounts.unmount(volumes / "memory")
        cgroups.remove_tiers()
        for one in filter(Path.is_dir, Hierarchies.of_this_node().folders(root)):
            one.rmdir()
