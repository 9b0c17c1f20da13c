"""Does one bad pod, file, workflow, snapshot or answer stop the poller, or what it does for the others?

Each row feeds one poison to a real poller on a real Temporal, with a runtime that the test plays. Then a healthy pod has to
start, to hear of an end in the runtime, and to go with its manifest; and no loop may have had to be restarted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import PauseWorkflowExecutionRequest, UnpauseWorkflowExecutionRequest
from temporalio.client import WorkflowHandle
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from proto.cri.labels import POD_NAME, POD_NAMESPACE, POD_UID
from proto.interventions import FOREIGN_WORKFLOW, WORKFLOW_PAUSED, read_interventions
from proto.pod_snapshot import snapshot_path
from proto.temporal import names
from proto.temporal.names import PodWorkflowId
from tests.patience import PATIENCE
from tests.worker.poller.runtime.fake_runtime import STOPPED, container, event, sandbox
from tests.worker.poller.snapshots import snapshot, write
from tests.worker.processes.poller_node import Node, StandIn, eventually
from worker.daemon import loop_restarts
from worker.daemon.troubles import TROUBLES
from worker.poller.manifests.manifest import read_manifest
from worker.processes.poller import Poller

Poison = Callable[[Node], Awaitable[None]]


@pytest.fixture(autouse=True)
def troubles() -> Iterator[None]:
    """Begin with none, and leave none."""
    TROUBLES.__init__()  # type: ignore[misc]  # the record is one a process, and tests share it
    yield
    TROUBLES.__init__()  # type: ignore[misc]


async def start_foreign(node: Node, workflow_id: str, *, kind: str = names.POD_WORKFLOW) -> None:
    """Start a workflow on the node's queue as the UI's "start like this" does: under another id, with any input."""
    own = TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), node.name)])
    queue = names.node_task_queue(node.name)
    await node.client.start_workflow(kind, "anything", id=workflow_id, task_queue=queue, search_attributes=own)


async def foreign_pod(node: Node) -> None:
    """Start one with a random id."""
    await start_foreign(node, f"copied-{node.name}")


async def pod_of_another_node(node: Node) -> None:
    """Start one that has the form of ours."""
    await start_foreign(node, f"pod/elsewhere/default/web/{node.name}")


async def foreign_node(node: Node) -> None:
    """Start a second workflow of the node's type."""
    await start_foreign(node, f"another-{node.name}", kind=names.NODE_WORKFLOW)


async def sandbox_without_labels(node: Node) -> None:
    """Let anybody with access to containerd mark a sandbox as ours, without a pod's labels."""
    odd = sandbox("u1", "odd", node=node.name)
    for label in (POD_NAME, POD_NAMESPACE):
        del odd.labels[label]
    node.runtime.add(odd, container("odd1", "odd", running=False))


async def sandbox_with_slashes(node: Node) -> None:
    """The same with labels that make no workflow id."""
    odd = sandbox("a/b/c", "odd", node=node.name, name="x/../y")
    node.runtime.add(odd, container("odd1", "odd", running=False))


async def odd_events(node: Node) -> None:
    """Let the runtime report ends of pods without labels, with odd ones, and of nothing."""
    async with asyncio.timeout(PATIENCE):
        await node.runtime.reader_came.wait()
    for uid, name in (("a/b", "x"), ("u", "")):
        odd = sandbox(uid, "odd", node=node.name, name=name)
        node.runtime.tell(event(STOPPED, "odd1", odd, container("odd1", "odd", running=False)))
    bare = sandbox("u2", "odd", node=node.name)
    bare.labels.clear()
    bare.labels[POD_UID] = "u2"
    node.runtime.tell(event(STOPPED, "odd1", bare))
    node.runtime.tell(event(STOPPED, "", None))


async def snapshot_of_another_workflow(node: Node) -> None:
    """Let a snapshot name a workflow that is no pod of this node."""
    odd = snapshot("odd", {"c": "odd1 running"}, node=node.name)
    for uid, workflow_id in (("odd", "no-pod"), ("odd2", f"pod/{node.name}/too/many/parts/odd2")):
        path = snapshot_path(node.root, uid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(odd.to_json().replace(odd.workflow_id.encode(), workflow_id.encode()))


async def snapshots_of_rubbish(node: Node) -> None:
    """Let snapshots hold anything but a snapshot."""
    for uid, content in (("r1", b"[]"), ("r2", b"{"), ("r3", b'{"containers": 3}'), ("r4", b"null"), ("r5", b"\xff")):
        path = snapshot_path(node.root, uid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


async def manifest_that_breaks_its_reader(node: Node) -> None:
    """Write a manifest on which our own code fails; `broken_reader` lets it."""
    node.write("a-poison.yaml", name="poison")


async def objects_of_any_kind(node: Node) -> None:
    """Fill the objects folder with what is no object."""
    folder = node.config().objects_dir / "default" / "configmaps"
    folder.mkdir(parents=True)
    (folder / "odd.yaml").symlink_to(folder / "odd.yaml")
    (folder / "\udcff.yaml").write_bytes(b"\xff")
    (folder / "folder.yaml").mkdir()


@pytest.fixture(autouse=True)
def broken_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reader of manifests fail in an unexpected way for the one of that name."""

    def read(path: Path, data: bytes, *args: Any, **named: Any) -> Any:
        if b"name: poison" in data:
            raise RecursionError("a defect in reading a manifest")
        return read_manifest(path, data, *args, **named)

    monkeypatch.setattr("worker.processes.poller.read_manifest", read)


@pytest.mark.parametrize(
    "poison",
    [
        pytest.param(foreign_pod, id="a-workflow-of-our-type-with-a-foreign-id"),
        pytest.param(pod_of_another_node, id="a-workflow-with-the-id-of-another-nodes-pod"),
        pytest.param(foreign_node, id="a-second-workflow-of-the-nodes-type"),
        pytest.param(sandbox_without_labels, id="a-marked-sandbox-without-labels"),
        pytest.param(sandbox_with_slashes, id="a-marked-sandbox-with-odd-labels"),
        pytest.param(odd_events, id="odd-events"),
        pytest.param(snapshot_of_another_workflow, id="a-snapshot-that-names-another-workflow"),
        pytest.param(snapshots_of_rubbish, id="snapshots-of-rubbish"),
        pytest.param(manifest_that_breaks_its_reader, id="a-manifest-that-breaks-its-reader"),
        pytest.param(objects_of_any_kind, id="odd-files-among-the-objects"),
    ],
)
async def test_one_poison_stops_nothing(node: Node, poison: Poison) -> None:
    """It is there before the poller starts, or comes with it, and is seen in every listing."""
    node.sync_frequency = timedelta(milliseconds=300)
    if poison is not odd_events:
        await poison(node)
    async with node.poller():
        if poison is odd_events:
            await poison(node)
        await a_healthy_pod_lives(node)
    assert TROUBLES.failures() == {}


async def test_a_foreign_workflow_is_told_and_left_alone(node: Node) -> None:
    """`tempolet pods` shows it; the poller neither signals nor ends it."""
    node.sync_frequency = timedelta(milliseconds=300)
    await foreign_pod(node)
    async with node.poller():
        await eventually(partial(_is_told, node, FOREIGN_WORKFLOW))
    history = await node.client.get_workflow_handle(f"copied-{node.name}").fetch_history()
    assert all(one.WhichOneof("attributes") != "workflow_execution_signaled_event_attributes" for one in history.events)


async def test_a_paused_pod_is_told_and_deleted_once_it_continues(node: Node) -> None:
    """The SDK does not know its status: it ends neither the list nor the poller, and counts as open."""
    node.sync_frequency = timedelta(milliseconds=300)
    place = {"namespace": node.client.namespace}
    manifest = node.write("paused.yaml", name="paused")
    async with node.poller():
        paused = await node.handle("paused")
        run_id = (await paused.describe()).run_id
        await node.client.workflow_service.pause_workflow_execution(
            PauseWorkflowExecutionRequest(**place, workflow_id=paused.id, identity="joe", reason="to look at it")
        )
        await eventually(partial(_is_told, node, WORKFLOW_PAUSED))
        (told,) = read_interventions(node.root)
        assert told.pod == f"default/paused-{node.name}"
        assert "paused by joe" in told.message
        await a_healthy_pod_lives(node)
    async with node.poller():  # one that starts while it is paused
        manifest.unlink()
        await a_healthy_pod_lives(node)
        await node.client.workflow_service.unpause_workflow_execution(
            UnpauseWorkflowExecutionRequest(**place, workflow_id=paused.id)
        )
        async with asyncio.timeout(PATIENCE):
            assert "ManifestRemoved" in (await paused.result()).split()
        assert (await paused.describe()).run_id == run_id, "it was not started again"
        await eventually(partial(_is_told_no_more, node))
    assert TROUBLES.failures() == {}


async def test_every_loop_of_the_poller_is_restarted(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fails once, at its start, for a reason that nobody foresaw."""
    monkeypatch.setattr(loop_restarts, "FIRST_PAUSE", 0.01)
    failed: list[str] = []
    whole = Poller._loops

    def failing_once(name: str, loop: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            if name not in failed:
                failed.append(name)
                raise KeyError(f"a defect in {name}")
            await loop()

        return run

    monkeypatch.setattr(
        Poller, "_loops", lambda poller: {name: failing_once(name, one) for name, one in whole(poller).items()}
    )
    async with node.poller():
        await a_healthy_pod_lives(node)
    assert set(failed) == set(TROUBLES.failures())
    assert len(failed) >= 8


async def a_healthy_pod_lives(node: Node) -> None:
    """Start a pod, let it hear of an end, and delete it."""
    manifest = node.write("web.yaml")
    handle = await node.handle()
    pod_id = PodWorkflowId.parse(handle.id)
    async with asyncio.timeout(PATIENCE):
        await node.runtime.reader_came.wait()
    pod, c1 = sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name), container("c1", "s1", running=False)
    write(node.root, snapshot(pod_id.uid, {"c": "c1 running"}, node=node.name, name=pod_id.name))
    node.runtime.add(pod, c1)
    node.runtime.tell(event(STOPPED, "c1", pod, c1))
    await eventually(partial(_has_heard, handle, ":c1"))
    manifest.unlink()
    async with asyncio.timeout(PATIENCE):
        assert "ManifestRemoved" in (await handle.result()).split()


async def _has_heard(handle: WorkflowHandle[StandIn, str], end: str) -> bool:
    """Report whether a pod heard this; a relist that began before its sandbox was there may have told of a lost one, too."""
    return any(one.endswith(end) for one in await handle.query(StandIn.told))


async def _is_told_no_more(node: Node) -> bool:
    return not read_interventions(node.root)


async def _is_told(node: Node, reason: str) -> bool:
    return reason in {one.reason for one in read_interventions(node.root)}
