"""Does every pod that a manifest lists live, and no other, through edits, restarts and outages?

A real poller on a real Temporal, with a runtime that the test plays.
"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.history.v1 import HistoryEvent

from proto.refusals import read_refusals
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import PodStart
from tests.patience import PATIENCE
from tests.worker.poller.snapshots import snapshot, write
from tests.worker.processes.poller_node import Node, eventually, heard
from worker.behaviours.commitment import BEFORE_COMMITS, SIGN_OF_A_POLLER, Commitment
from worker.daemon.node_lock import NodeLockHeld
from worker.daemon.service import Service
from worker.processes.poller import run_poller
from workflows.decide.versions import CURRENT


async def test_a_manifest_becomes_a_workflow_that_an_operator_finds(node: Node) -> None:
    """By search attributes, with its summary, on its node's queue, and with all that it starts with."""
    async with node.poller():
        path = node.write("web.yaml")
        handle = await node.handle()
        assert await heard(handle, 1) == ["listed"]
        start = await handle.query("Start", result_type=PodStart)
        assert (start.node, start.source, start.path) == (node.name, "file", str(path))
        assert start.settings.host_ips == ("192.0.2.7",)
        assert start.pod["metadata"]["annotations"]["tempolet.dev/node"] == node.name
        found = await handle.describe()
        pod_id = PodWorkflowId.parse(handle.id)
        attributes = {pair.key.name: pair.value for pair in found.typed_search_attributes.search_attributes}
        assert attributes == attributes | {
            "PodNamespace": "default",
            "PodName": f"web-{node.name}",
            "PodUID": pod_id.uid,
            "PodNode": node.name,
            "PodPhase": "Pending",
            "PodReady": "False",
            "PodRestarts": 0,
        }
        assert await found.static_summary() == f"default/web-{node.name} on {node.name}"
        assert found.task_queue == f"node/{node.name}"


async def test_a_pod_starts_with_the_behaviour_that_the_node_is_committed_to(node: Node) -> None:
    """After an upgrade the older one, so that there is a way back; the newest as soon as the operator has said so."""
    state = node.config().state_dir
    state.mkdir()
    (state / SIGN_OF_A_POLLER).write_text("1\n")  # of the release before
    async with node.poller():
        node.write("web.yaml")
        start = await (await node.handle()).query("Start", result_type=PodStart)
        assert start.behaviour == BEFORE_COMMITS.pods
        Commitment(state).commit()
        node.write("other.yaml", name="other")
        start = await (await node.handle("other")).query("Start", result_type=PodStart)
        assert start.behaviour == CURRENT


async def test_a_removed_manifest_takes_its_pod_along(node: Node) -> None:
    """With the reason and the file, for the story."""
    async with node.poller():
        path = node.write("web.yaml")
        handle = await node.handle()
        path.unlink()
        assert await handle.result() == "listed ManifestRemoved"


async def test_an_edit_is_another_pod_and_the_old_one_is_asked_first(node: Node) -> None:
    """The old one may still be going when its successor starts."""
    async with node.poller():
        node.write("web.yaml", tag="1")
        old = await node.handle(tag="1")
        await old.signal("Hold", True)
        node.write("web.yaml", tag="2")
        new = await node.handle(tag="2")
        assert await heard(old, 2) == ["listed", "ManifestReplaced"]
        asked = [event.event_time.ToDatetime() async for event in old.fetch_history_events() if _is_deletion(event)]
        assert asked[0] < (await new.describe()).start_time.replace(tzinfo=None)
        await old.signal("Hold", False)
        await node.only("web 2")


def _is_deletion(event: HistoryEvent) -> bool:
    return event.workflow_execution_signaled_event_attributes.signal_name == "DeletionRequested"


async def test_an_edit_taken_back_reaches_the_pod_that_is_going(node: Node) -> None:
    """It is listed again, so it is started again after its end."""
    async with node.poller():
        node.write("web.yaml", tag="1")
        first = await node.handle(tag="1")
        await first.signal("Hold", True)
        node.write("web.yaml", tag="2")
        second = await node.handle(tag="2")
        node.write("web.yaml", tag="1")
        assert await heard(first, 3) == ["listed", "ManifestReplaced", "listed"]
        assert await second.result() == "listed ManifestReplaced"
        await first.signal("Hold", False)
        await node.only("web 1")


async def test_a_pod_that_ended_and_is_listed_again_starts_again(node: Node) -> None:
    """Under the same id, in a run of its own."""
    async with node.poller():
        path = node.write("web.yaml")
        pod = await node.handle()
        first = (await pod.describe()).run_id
        path.unlink()
        await pod.result()
        node.write("web.yaml")

        async def runs_again() -> bool:
            return (await pod.describe()).run_id != first

        await eventually(runs_again)
        assert await heard(pod, 1) == ["listed"]


async def test_a_manifest_with_a_uid_of_its_own_tells_its_edit(node: Node) -> None:
    """The UID is the same, so the workflow is signalled and decides what happens."""
    async with node.poller():
        path = node.write("web.yaml")
        text = path.read_text().replace("metadata:", "metadata:\n  uid: my-own")
        path.write_text(text)
        await node.only("web 1")
        handle = await node.handle()
        assert PodWorkflowId.parse(handle.id).uid == "my-own"
        path.write_text(text.replace("busybox:1", "busybox:2"))
        assert await heard(handle, 2) == ["listed", "listed with busybox:2"]


async def test_what_changed_while_the_poller_was_away_is_made_good(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed, replaced, added and untouched: each as if the poller had seen it."""
    monkeypatch.setattr("worker.processes.resync.FIRST_ANSWER", timedelta(seconds=PATIENCE))
    for name in ("stays", "goes", "changes"):
        node.write(f"{name}.yaml", name=name)
    async with node.poller():
        await node.only("stays 1", "goes 1", "changes 1")
        gone, changed = await node.handle("goes"), await node.handle("changes")
    (node.manifests / "goes.yaml").unlink()
    node.write("changes.yaml", name="changes", tag="2")
    node.write("comes.yaml", name="comes")
    await gone.signal("Hold", True)  # the hint may come before or after the deletion
    async with node.poller():
        assert sorted(await heard(gone, 3)) == ["ManifestRemoved", "listed", "restart"]
        await gone.signal("Hold", False)
        await gone.result()
        assert (await changed.result()).endswith("ManifestReplaced")
        await node.only("stays 1", "changes 2", "comes 1")
        stays = await node.handle("stays")
        assert sorted(await heard(stays, 3)) == ["listed", "listed", "restart"]


async def test_after_a_reboot_the_pods_from_before_are_told_so_once(node: Node) -> None:
    """A pod that this boot has started is not, and neither is any pod at the poller's next start."""
    for name in ("before", "after"):
        node.write(f"{name}.yaml", name=name)
    async with node.poller():
        before, after = await node.handle("before"), await node.handle("after")
        boot = node.config().state_dir / "boot-id"
        await eventually(lambda: asyncio.to_thread(boot.exists))
    write(
        node.root,
        snapshot(PodWorkflowId.parse(before.id).uid, node=node.name, path=str(node.manifests / "before.yaml")),
    )
    boot.write_text("of-another-boot\n")
    async with node.poller():
        assert sorted(await heard(before, 3)) == ["listed", "listed", "reboot"]
        assert sorted(await heard(after, 3)) == ["listed", "listed", "restart"]
    async with node.poller():
        assert sorted(await heard(before, 5))[-2:] == ["reboot", "restart"]


async def test_a_file_that_is_broken_at_the_start_keeps_its_pod(node: Node) -> None:
    """The snapshot says which file the pod came from; a pod of another file may be deleted."""
    broken, other = node.write("broken.yaml", name="a"), node.write("other.yaml", name="b")
    async with node.poller():
        kept, goes = await node.handle("a"), await node.handle("b")
    for handle, path in ((kept, broken), (goes, other)):
        pod_id = PodWorkflowId.parse(handle.id)
        write(node.root, snapshot(pod_id.uid, node=node.name, path=str(path)))
    broken.write_text("apiVersion: v1\nkind: P")
    other.unlink()
    async with node.poller():
        assert "ManifestRemoved" in await goes.result()
        await heard(kept, 2)
        await node.only("a 1")
        await eventually(lambda: _says(node, "broken.yaml", "NotAPod"))
        node.write("broken.yaml", name="a", tag="1")
        await eventually(lambda: _says_nothing(node))
        await node.only("a 1")


async def test_the_second_manifest_of_a_name_is_refused_beside_the_running_first(node: Node) -> None:
    """Also after a restart, and although its file comes first by name."""
    node.write("b.yaml")
    async with node.poller():
        handle = await node.handle()
        pod_id = PodWorkflowId.parse(handle.id)
        path = str(node.manifests / "b.yaml")
        write(node.root, snapshot(pod_id.uid, node=node.name, name=pod_id.name, path=path))
    node.write("a.yaml", tag="2")
    async with node.poller():
        await eventually(lambda: _says(node, "a.yaml", "DuplicatePodName"))
        await heard(handle, 2)
        await node.only("web 1")


async def test_no_folder_takes_down_what_an_unreadable_one_keeps(node: Node) -> None:
    """A missing folder lists no pods; one that cannot be read does not count."""
    node.write("web.yaml")
    async with node.poller():
        handle = await node.handle()
    away = node.manifests.rename(node.root / "away")
    node.manifests.symlink_to(node.manifests)
    async with node.poller():
        await eventually(lambda: _says(node, "manifests", "ManifestFolderUnreadable"))
        assert await heard(handle, 2) == ["listed", "restart"]
    node.manifests.unlink()
    async with node.poller():
        assert "ManifestRemoved" in (await handle.result()).split()  # a restart hint may come before or after it
        away.rename(node.manifests)
        await node.only("web 1")


async def test_a_second_poller_of_a_node_refuses_to_start(node: Node) -> None:
    """The message names the first."""
    node.write("web.yaml")
    async with node.poller():
        await node.handle()
        with pytest.raises(NodeLockHeld, match="the poller process of this node is already running: pid"):
            await run_poller(node.config(), node.client, Service(lambda: "", environment={}))


async def _says(node: Node, file: str, reason: str) -> bool:
    return [(Path(one.path).name, one.reason) for one in read_refusals(node.root)] == [(file, reason)]


async def _says_nothing(node: Node) -> bool:
    return not read_refusals(node.root)
