"""Do a poller's messages reach who leads the pods: Temporal, the worker while Temporal is away, and Temporal again?

A real poller; a Temporal of its own, which is suspended; a lead that takes pods as the test says.
"""

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from proto.temporal import names
from proto.temporal.names import PodWorkflowId, node_workflow_id
from proto.temporal.pod import PodStart
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.conftest import development_process
from tests.patience import PATIENCE
from tests.worker.delivery.fake_lead import FakeLead
from tests.worker.poller.runtime.fake_runtime import STOPPED, FakeRuntime, container, event, sandbox
from tests.worker.poller.snapshots import snapshot, write
from tests.worker.processes.poller_node import Node, StandIn, eventually, heard, hosted, threads_awaited
from worker.delivery.server import LeadServer, socket_path
from worker.payloads.receiving import ReceivingConverter
from worker.temporal.temporal_client import TemporalSettings, connect, prepare
from workflows.loops.node_loop import NodeLoop
from workflows.loops.pod_loop import PodLoop

SHAPES = {**NodeLoop.signal_shapes, **PodLoop.signal_shapes}


@dataclass
class LedNode:
    """A node with a Temporal and a lead of its own."""

    node: Node
    lead: FakeLead
    temporal: "subprocess.Popen[bytes]"

    def suspend(self) -> None:
        """Let Temporal answer nothing any more."""
        self.temporal.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let Temporal go on."""
        self.temporal.send_signal(signal.SIGCONT)

    def told(self, handle: "WorkflowHandle[StandIn, str]", *kinds: type) -> list[Any]:
        """Return what the lead has taken for a pod."""
        return [value for one, _, value in self.lead.told if one == handle.id and isinstance(value, kinds)]

    async def until_told(self, handle: "WorkflowHandle[StandIn, str]", kind: type, count: int) -> list[Any]:
        """Wait until the lead has taken so many."""
        async with asyncio.timeout(PATIENCE):
            while len(self.told(handle, kind)) < count:
                await self.lead.until(len(self.lead.told) + 1)
        return self.told(handle, kind)


@asynccontextmanager
async def led_node(folder: Path, settings: TemporalSettings) -> AsyncIterator[LedNode]:
    """Make a node whose lead's socket is served."""
    with development_process(folder) as (address, temporal):
        settings = TemporalSettings(key_file=settings.key_file, address=address, environment={})
        client = await connect(settings)
        await prepare(client, settings)
        runtime, lead = FakeRuntime(folder / "cri.sock"), FakeLead()
        await runtime.start()
        node = Node(client, folder, runtime, "n1")
        server = LeadServer(lead, ReceivingConverter(), SHAPES)
        async with threads_awaited(), hosted(client, "n1"), server.serving(socket_path(node.config().state_dir)):
            try:
                yield LedNode(node, lead, temporal)
            finally:
                temporal.send_signal(signal.SIGCONT)
        await runtime.stop()


@pytest.fixture
async def led(settings: TemporalSettings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LedNode]:
    """Make one whose poller has little patience."""
    monkeypatch.setattr("worker.delivery.deliveries.PATIENCE", timedelta(seconds=0.3))
    with tempfile.TemporaryDirectory(prefix="tpl.") as folder:  # a socket's path is short
        async with led_node(Path(folder), settings) as led:
            yield led


async def test_messages_follow_the_lead_there_and_back(led: LedNode) -> None:
    """Each arrives once and in order; after each change everything is told anew."""
    node, lead = led.node, led.lead
    node.write("web.yaml")
    async with node.poller():
        web = await node.handle()
        assert await heard(web, 1) == ["listed"]
        async with asyncio.timeout(PATIENCE):
            await node.runtime.reader_came.wait()
        uid = PodWorkflowId.parse(web.id).uid
        pod, c1 = sandbox(uid, "s1", node="n1", name="web-n1"), container("c1", "s1", running=False)
        node.runtime.add(pod, container("c1", "s1"))
        write(node.root, snapshot(uid, {"c": "c1 running"}, node="n1", name="web-n1"))
        led.suspend()

        lead.take(web.id)  # the worker has found that Temporal is away: the pod is told anew
        (listed,) = await led.until_told(web, PodListed, 1)
        await led.until_told(web, RuntimeChanged, 1)

        node.runtime.tell(event(STOPPED, "c1", pod, c1))  # a listing, which may come at any moment, finds it running
        *_, hint = await led.until_told(web, RuntimeChanged, 2)
        assert (hint.source, hint.exited) == ("event", ("c1",))

        (node.manifests / "web.yaml").unlink()
        (deletion,) = await led.until_told(web, DeletionRequested, 1)
        assert deletion.sequence > listed.sequence

        lead.takes_new = True  # also pods that are born while Temporal is away
        node.write("db.yaml", name="db")
        async with asyncio.timeout(PATIENCE):
            while not lead.started or not isinstance(lead.started[-1], PodStart) or "db" not in lead.started[-1].path:
                await lead.until(len(lead.told) + 1)

        by_stream: dict[tuple[str, str], list[int]] = {}
        for workflow_id, name, value in lead.told:
            if name != names.NODE_CONFIGURED:
                kind = name if name == names.RUNTIME_CHANGED else "source"
                by_stream.setdefault((workflow_id, kind), []).append(value.sequence)
                assert value.sender == "poller"
        assert all(numbers == sorted(set(numbers)) for numbers in by_stream.values()), "once each, and in order"

        count = len(lead.told)
        lead.takes_new = False
        lead.let_go(*lead.pods)
        led.resume()
        await eventually(lambda: is_completed(web))
        assert "ManifestRemoved" in (await web.result()).split(), "told anew to Temporal"
        db = await node.handle("db")
        assert (await heard(db, 1))[0] == "listed"
        assert len(lead.told) == count, "the worker is told nothing more"


async def is_completed(handle: "WorkflowHandle[StandIn, str]") -> bool:
    """Return whether the workflow has completed."""
    return (await handle.describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_a_worker_that_does_not_lead_hears_since_when_something_is_due(led: LedNode) -> None:
    """Nothing is lost: Temporal has it once it is back."""
    node, lead = led.node, led.lead
    async with node.poller():
        node.write("web.yaml")
        web = await node.handle()
        await heard(web, 1)
        led.suspend()
        (node.manifests / "web.yaml").unlink()
        ages: list[float] = []
        async with asyncio.timeout(PATIENCE):
            while len(ages) < 2:
                lead.refused.clear()
                message = await lead.until_refused()
                if message.name == names.DELETION_REQUESTED:
                    ages.append(message.due_for)
        assert 0.3 <= ages[0] < ages[1]
        led.resume()
        await eventually(lambda: is_completed(web))
    assert lead.told == []


async def test_a_pod_that_the_worker_leads_is_not_taken_for_gone(led: LedNode) -> None:
    """Temporal has no workflow of it yet: it is open all the same, and its remains are not removed."""
    node, lead = led.node, led.lead
    lead.takes_new = True
    node.sync_frequency = timedelta(milliseconds=300)
    led.suspend()
    node.write("web.yaml")
    async with node.poller():
        async with asyncio.timeout(PATIENCE):
            while not [one for one in lead.started if isinstance(one, PodStart)]:
                await lead.until(len(lead.told) + 1)
        start = next(one for one in lead.started if isinstance(one, PodStart))
        uid = start.pod["metadata"]["uid"]
        node.runtime.add(sandbox(uid, "s1", node="n1", name="web-n1"))
        (node.manifests / "web.yaml").unlink()
        led.resume()
        listings = node.runtime.listings
        await eventually(lambda: have_come(node.runtime, listings + 8))
        assert "s1" in node.runtime.sandboxes
    assert node_workflow_id("n1") not in {one for one, _, value in lead.told if isinstance(value, PodListed)}


async def have_come(runtime: FakeRuntime, count: int) -> bool:
    """Return whether the runtime was listed so often."""
    return runtime.listings >= count
