"""Does a pod hear of every end in its runtime, through outages of runtime and Temporal, and is only rubbish removed?

A real poller on a real Temporal, with a runtime that the test plays. Where a test is about an event, the runtime goes on
to list what its snapshot says: the listing after the opening of the stream may come at any moment, and finds nothing.
"""

import asyncio
import dataclasses
import time
from datetime import timedelta

import pytest
from temporalio.client import WorkflowExecutionStatus

from proto.node_runtime import read_node_runtime
from proto.temporal.names import PodWorkflowId
from tests.patience import PATIENCE
from tests.worker.poller.runtime.fake_runtime import STOPPED, container, event, sandbox
from tests.worker.poller.snapshots import snapshot, write
from tests.worker.processes.poller_node import Line, Node, eventually, heard
from worker.temporal.temporal_client import TemporalSettings, connect


async def test_an_end_in_the_runtime_is_a_hint_and_our_own_doing_is_none(node: Node) -> None:
    """Creations and starts are not signalled; an unknown end is; a known one is not."""
    async with node.poller():
        node.write("web.yaml")
        handle = await node.handle()
        uid = PodWorkflowId.parse(handle.id).uid
        async with asyncio.timeout(PATIENCE):
            await node.runtime.reader_came.wait()
        pod, c1 = sandbox(uid, "s1", node=node.name, name=f"web-{node.name}"), container("c1", "s1", running=False)
        node.runtime.add(pod, container("c1", "s1"))
        write(node.root, snapshot(uid, {"c": "c1 running"}, node=node.name, name=f"web-{node.name}"))
        node.runtime.tell(event(STOPPED, "c1", pod, c1))
        assert await heard(handle, 2) == ["listed", "event:c1"]
        write(node.root, snapshot(uid, {"c": "c1 exited"}, node=node.name, name=f"web-{node.name}"))
        node.runtime.tell(event(STOPPED, "c1", pod, c1))
        node.runtime.tell(event(STOPPED, "s1", pod, c1))
        assert await heard(handle, 3) == ["listed", "event:c1", "event:lost"]


async def test_an_end_that_we_asked_for_waits_for_who_causes_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The activity that stops the container reports its end; only an unreported end is signalled, a moment later."""
    monkeypatch.setattr("worker.poller.runtime.watch.OWN_STOP_WAITS", timedelta(seconds=4))
    async with node.poller():
        path = node.write("web.yaml")
        handle = await node.handle()
        await handle.signal("Hold", True)
        pod_id = PodWorkflowId.parse(handle.id)
        async with asyncio.timeout(PATIENCE):
            await node.runtime.reader_came.wait()
        pod, c1 = sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name), container("c1", "s1", running=False)
        node.runtime.add(pod, container("c1", "s1"))
        write(node.root, snapshot(pod_id.uid, {"c": "c1 running"}, node=node.name, name=pod_id.name))
        path.unlink()
        assert await heard(handle, 2) == ["listed", "ManifestRemoved"]
        node.runtime.tell(event(STOPPED, "c1", pod, c1))
        node.runtime.tell(event(STOPPED, "s1", pod))
        await asyncio.sleep(0.3)  # time enough for a hint that does not wait to go out
        write(node.root, snapshot(pod_id.uid, {"c": "c1 exited"}, node=node.name, name=pod_id.name))
        assert await heard(handle, 3) == ["listed", "ManifestRemoved", "event:lost"]


async def test_an_end_that_its_start_will_tell_waits_for_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the start has reported is not signalled; what it left out is, a moment later."""
    monkeypatch.setattr("worker.poller.runtime.watch.OWN_START_WAITS", timedelta(seconds=6))
    async with node.poller():
        node.write("web.yaml")
        handle = await node.handle()
        pod_id = PodWorkflowId.parse(handle.id)
        async with asyncio.timeout(PATIENCE):
            await node.runtime.reader_came.wait()
        pod = sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name)
        told, untold = (container(f"{one}1", "s1", name=one, running=False) for one in ("told", "untold"))
        both = ("told", "untold")
        node.runtime.add(pod, *(container(f"{one}1", "s1", name=one) for one in both))
        write(node.root, snapshot(pod_id.uid, node=node.name, name=pod_id.name, ends_awaited=both))
        node.runtime.tell(event(STOPPED, "told1", pod, told, untold))
        node.runtime.tell(event(STOPPED, "untold1", pod, told, untold))
        node.runtime.tell(event(STOPPED, "s1", pod, told, untold))
        assert await heard(handle, 2) == ["listed", "event:lost"], "other news waits for nobody"
        known = {"told": "told1 exited", "untold": "untold1 running"}
        write(node.root, snapshot(pod_id.uid, known, node=node.name, name=pod_id.name))
        assert await heard(handle, 3) == ["listed", "event:lost", "event:untold1"]


async def test_what_starts_during_a_listing_is_not_taken_for_gone(node: Node) -> None:
    """The snapshot may know a container that the listing, made a moment before, does not have."""
    node.sync_frequency = timedelta(milliseconds=200)
    node.write("web.yaml")
    async with node.poller():
        handle = await node.handle()
        pod_id = PodWorkflowId.parse(handle.id)
        node.runtime.add(sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name))

        def start_another() -> None:
            """Let a container start, and the worker know it, after the listing is made."""
            attempt = len(node.runtime.containers)
            started = container(f"c{attempt}", "s1", attempt=attempt)
            node.runtime.containers[started.id] = started
            known = {"c": f"{started.id} running {attempt}"}
            write(node.root, snapshot(pod_id.uid, known, node=node.name, name=pod_id.name))

        node.runtime.after_listing = start_another
        seen = node.runtime.listings
        await eventually(lambda: _listed_since(node, seen + 4))
        assert await handle.query("Heard") == ["listed"]


async def test_an_end_while_the_runtimes_stream_was_away_is_found(node: Node) -> None:
    """Containerd stops and returns: pods stay, the reason is shown, and the listing finds what happened."""
    async with node.poller():
        node.write("web.yaml")
        handle = await node.handle()
        pod_id = PodWorkflowId.parse(handle.id)
        node.runtime.add(sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name), container("c1", "s1"))
        write(node.root, snapshot(pod_id.uid, {"c": "c1 running"}, node=node.name, name=pod_id.name))
        await eventually(lambda: _runtime_is(node, "", "stream"))
        await node.runtime.stop()
        await eventually(lambda: _runtime_is(node, "RuntimeAway"))
        node.runtime.end("c1")
        await node.runtime.start()
        assert await heard(handle, 2) in (["listed", "resync:c1"], ["listed", "relist:c1"])
        await eventually(lambda: _runtime_is(node, ""))


async def test_without_an_event_stream_listings_carry_the_node(node: Node) -> None:
    """A containerd before 2.0 shares one stream among its readers; each end is signalled once."""
    await node.runtime.stop()
    node.runtime.version = "1.7.28"
    await node.runtime.start()
    async with node.poller():
        node.write("web.yaml")
        handle = await node.handle()
        pod_id = PodWorkflowId.parse(handle.id)
        node.runtime.add(sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name), container("c1", "s1"))
        write(node.root, snapshot(pod_id.uid, {"c": "c1 running"}, node=node.name, name=pod_id.name))
        await eventually(lambda: _runtime_is(node, "", "relist"))
        node.runtime.end("c1")
        assert await heard(handle, 2) == ["listed", "relist:c1"]
        seen = node.runtime.listings
        await eventually(lambda: _listed_since(node, seen + 2))
        assert await handle.query("Heard") == ["listed", "relist:c1"]


async def test_a_pod_without_workflow_and_manifest_is_removed_and_no_other(node: Node) -> None:
    """A foreign pod, an adopted one and one whose workflow is open stay."""
    node.sync_frequency = timedelta(seconds=1)
    node.write("web.yaml")
    async with node.worker_that_leads_nothing(), node.poller():
        handle = await node.handle()
        pod_id = PodWorkflowId.parse(handle.id)
        node.runtime.add(sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name), container("c1", "s1"))
        node.runtime.add(sandbox("foreign", "s2", node=""), container("c2", "s2"))
        node.runtime.add(sandbox("left", "s3", node=node.name), container("c3", "s3"))
        await eventually(lambda: _holds(node, "s1", "s2"))
        assert node.runtime.stopped == ["c3 within 30", "s3"]
        first_run = (await handle.describe()).run_id
        await handle.terminate()
        await eventually(lambda: _is_anew(node, handle.id, first_run))
        assert set(node.runtime.sandboxes) == {"s1", "s2"}


async def test_a_temporal_that_is_away_loses_nothing(node: Node, settings: TemporalSettings) -> None:
    """Changes are signalled when Temporal is back, also a container's end."""
    assert settings.address
    async with Line(settings.address) as line:
        client = await connect(dataclasses.replace(settings, address=line.address))
        async with node.poller(client):
            goes = node.write("goes.yaml", name="goes")
            node.write("stays.yaml", name="stays")
            gone, stays = await node.handle("goes"), await node.handle("stays")
            async with asyncio.timeout(PATIENCE):
                await node.runtime.reader_came.wait()
            await line.cut()
            goes.unlink()
            node.write("comes.yaml", name="comes")
            pod_id = PodWorkflowId.parse(stays.id)
            pod, c1 = sandbox(pod_id.uid, "s1", node=node.name, name=pod_id.name), container("c1", "s1", running=False)
            node.runtime.add(pod, container("c1", "s1"))
            node.runtime.tell(event(STOPPED, "c1", pod, c1))
            await asyncio.sleep(0.5)  # time to fail: nothing tells of a call that did not arrive
            await line.mend()
            assert await gone.result() == "listed ManifestRemoved"
            assert await heard(stays, 2) == ["listed", "event:c1"]
            await node.only("stays 1", "comes 1")


async def test_a_poller_that_starts_before_temporal_and_runtime_waits_for_both(
    node: Node, settings: TemporalSettings
) -> None:
    """On a node everything starts at once."""
    assert settings.address
    await node.runtime.stop()
    node.write("web.yaml")
    async with Line(settings.address) as line:
        client = await connect(dataclasses.replace(settings, address=line.address))
        await line.cut()
        async with node.poller(client):
            await eventually(lambda: _runtime_is(node, "RuntimeAway"))
            await line.mend()
            await node.runtime.start()
            await node.only("web 1")
            await eventually(lambda: _runtime_is(node, "", "stream"))


async def test_a_deletion_is_not_late_after_a_lost_state_and_a_clock_set_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new poller's numbers are above those that the pod has heard, though its clock is a month behind."""
    manifest = node.write("web.yaml")
    async with node.poller():
        handle = await node.handle()
        await heard(handle, 1)
    (node.config().state_dir / "poller.signals").unlink()
    month, real = 30 * 86_400 * 10**9, time.time_ns
    monkeypatch.setattr("worker.temporal.signal_numbers.time.time_ns", lambda: real() - month)
    async with node.poller():
        manifest.unlink()
        await handle.result()
    numbers = await handle.query("Numbers")
    assert len(numbers) >= 2
    assert numbers == sorted(numbers)


async def _runtime_is(node: Node, reason: str, events: str = "") -> bool:
    known = read_node_runtime(node.root)
    return known is not None and known.reason == reason and (not events or known.events == events)


async def _listed_since(node: Node, listings: int) -> bool:
    return node.runtime.listings >= listings


async def _holds(node: Node, *sandboxes: str) -> bool:
    return set(node.runtime.sandboxes) == set(sandboxes)


async def _is_anew(node: Node, workflow_id: str, first_run: str) -> bool:
    """Return whether the pod's workflow runs, in another run than the first."""
    found = await node.client.get_workflow_handle(workflow_id).describe()
    return found.status is WorkflowExecutionStatus.RUNNING and found.run_id != first_run
