"""Do the poller's senders tell everything anew to a pod whose lead has changed, also what is under way just then?"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from proto.temporal.names import node_workflow_id
from proto.temporal.signals import ObjectsChanged
from tests.patience import PATIENCE
from tests.worker.poller.cluster.test_api_pods import GATED, GOING, UID, WEB, WORKFLOW, Node
from tests.worker.poller.manifests.test_manifest_pods import NEW, OLD, A, Temporal, lister, listing, web, workflow_id
from tests.worker.poller.snapshots import snapshot, write
from worker.poller.calls.open_workflows import OpenPod, OpenWorkflows, with_led
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.poller.node_pods import NodePods
from worker.poller.object_watch import ObjectWatch
from worker.poller.runtime.known_pods import KnownPods
from worker.temporal.signal_numbers import SignalNumbers

NODE = node_workflow_id("n")


async def test_the_pods_of_manifests() -> None:
    """A listed pod is listed again, the deletion of another one requested again; others hear nothing."""
    temporal = Temporal()
    pods = lister(temporal)
    pods.set_open([OpenPod(workflow_id(OLD), str(A))], asked_at=asyncio.get_running_loop().time())
    pods.set_listing(listing(web(NEW)))
    await temporal.until(2)
    pods.tell_anew([workflow_id(NEW)])
    await temporal.until(3)
    pods.tell_anew([workflow_id(OLD), "pod/n/default/other/222"])
    await temporal.until(4)
    deletion = "delete 000 ManifestReplaced"
    assert temporal.calls == [deletion, "start 111", "start 111", deletion]
    await pods.close()


class Hanging:
    """Lets a call hang until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, calls: object, name: str) -> None:
        call = getattr(calls, name)
        self.hangs, self.goes_on = asyncio.Event(), asyncio.Event()

        async def hanging(*args: Any) -> Any:
            found = await call(*args)
            self.hangs.set()
            await self.goes_on.wait()
            return found

        monkeypatch.setattr(calls, name, hanging)


@pytest.mark.parametrize(
    ("call", "listed", "calls"),
    [
        pytest.param("start", True, ["start 000", "start 000"], id="a-start"),
        pytest.param("request_deletion", False, ["delete 000 ManifestRemoved"] * 2, id="a-deletion"),
    ],
)
async def test_a_call_under_way_counts_for_the_former_lead(
    monkeypatch: pytest.MonkeyPatch, call: str, listed: bool, calls: list[str]
) -> None:
    """It is made again when it has succeeded."""
    temporal = Temporal()
    hanging = Hanging(monkeypatch, temporal, call)
    pods = lister(temporal)
    pods.set_open([OpenPod(workflow_id(OLD), str(A))], asked_at=asyncio.get_running_loop().time())
    pods.set_listing(listing(web(OLD)) if listed else listing())
    await asyncio.wait_for(hanging.hangs.wait(), PATIENCE)
    pods.tell_anew([workflow_id(OLD)])
    hanging.goes_on.set()
    await temporal.until(2)
    assert temporal.calls == calls
    await pods.close()


@pytest.mark.parametrize(
    ("pod", "calls"),
    [
        pytest.param(WEB, ["start with its content"] * 2, id="listed"),
        pytest.param(GATED, ["start with its content", "status ['g']"] * 2, id="with-conditions"),
        pytest.param(GOING, ["PodDeleted 0:00:30"] * 2, id="deleted"),
        pytest.param(None, ["is default/web gone", "PodRemoved None"] * 2, id="gone"),
    ],
)
async def test_the_pods_of_the_api(tmp_path: Path, pod: Any, calls: list[str]) -> None:
    """With its content, deletion and conditions; and through NodePods, which knows whose it is."""
    node = Node(tmp_path)
    node.open = {WORKFLOW}
    node.set_open()
    node.pods.set_listed([pod] if pod else [])
    await node.until_called(*calls[: len(calls) // 2])
    NodePods(lister(Temporal()), node.pods).tell_anew([WORKFLOW, "pod/n/default/other/222"])
    await node.until_called(*calls)
    await node.pods.close()


async def test_a_call_under_way_for_a_pod_of_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts for the former lead."""
    node = Node(tmp_path)
    node.open = {WORKFLOW}
    hanging = Hanging(monkeypatch, node, "start")
    node.set_open()
    node.pods.set_listed([WEB])
    await asyncio.wait_for(hanging.hangs.wait(), PATIENCE)
    node.pods.tell_anew([UID])
    hanging.goes_on.set()
    await node.until_called("start with its content", "start with its content")
    await node.pods.close()


class FakeWorkflows:
    """Takes signals about objects."""

    def __init__(self) -> None:
        self.numbers = SignalNumbers()
        self.told: list[str] = []
        self.during: Callable[[], None] = lambda: None

    async def objects_changed(self, workflow_id: str, hint: ObjectsChanged) -> bool:
        """Write down whom it concerns."""
        self.told.append(f"{workflow_id.rsplit('/', 1)[1]} {sorted(hint.versions)}")
        self.during()
        return True


async def test_objects(tmp_path: Path) -> None:
    """A version that the pod does not show yet is told again, also if it is being told; and the watch wakes up for it."""
    folder, workflows = tmp_path / "objects", FakeWorkflows()
    (folder / "default/configmaps").mkdir(parents=True)
    (folder / "default/configmaps/app.yaml").write_text("x")
    for uid in ("u1", "u2"):
        shown = replace(snapshot(uid, name=uid), objects={"configmaps/app": "1"})
        write(tmp_path, shown)
    led = snapshot("u1", name="u1").workflow_id
    watch = ObjectWatch(folder, KnownPods(tmp_path, "n"), cast("PodWorkflows", workflows))
    hint = "['configmaps/app']"
    await watch.compare()
    await watch.compare()
    assert sorted(workflows.told) == [f"u1 {hint}", f"u2 {hint}"]
    watch.tell_anew([led])
    workflows.during = lambda: watch.tell_anew([led])
    await watch.compare()
    workflows.during = lambda: None
    await watch.compare()
    await watch.compare()
    assert workflows.told[2:] == [f"u1 {hint}"] * 2

    told = asyncio.Event()
    workflows.during = told.set
    following = asyncio.create_task(watch.follow(3600))
    async with asyncio.timeout(PATIENCE):
        for _ in range(2):
            watch.tell_anew([led])
            await told.wait()
            told.clear()
    following.cancel()


@pytest.mark.parametrize(
    ("found", "led", "then"),
    [
        pytest.param(OpenWorkflows(("pod/n/default/a/1",)), (), OpenWorkflows(("pod/n/default/a/1",)), id="nothing"),
        pytest.param(
            OpenWorkflows(("pod/n/default/a/1",)),
            ("pod/n/default/b/2", "pod/n/default/a/1"),
            OpenWorkflows(("pod/n/default/a/1", "pod/n/default/b/2")),
            id="one-that-temporal-does-not-know",
        ),
        pytest.param(OpenWorkflows(), (NODE, "pod/other/default/b/2", "x"), OpenWorkflows(node=True), id="the-node"),
    ],
)
def test_what_the_worker_leads_is_open(found: OpenWorkflows, led: tuple[str, ...], then: OpenWorkflows) -> None:
    """Temporal may not know of it yet."""
    assert with_led(found, led, "n") == then
