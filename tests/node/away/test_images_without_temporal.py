"""Are images collected and prepulled while Temporal is away, and does the node's workflow go on with that afterwards?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.converter import WorkflowSerializationContext

from proto.temporal import names
from proto.temporal.away import EntryKind, WhileAway
from tests.node.away.stopped_temporal import own_temporal, resume, suspend
from tests.node.images.registry import Registry
from tests.node.images.test_image_collection import BUSYBOXES, images, own, registry
from tests.node.operating import tempolet
from tests.node.recordings.recorded_node import EVERY_SECOND, FULL, NEVER_FULL, configure
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node, wait
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import PAUSE_IMAGE
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own", "own_temporal", "registry"]  # fixtures


@pytest.fixture
def node(tmp_path: Path, own: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with a containerd and a Temporal of its own."""
    keys = {"images": EVERY_SECOND}
    with tempolet_node(tmp_path, own, own_temporal, keys=NEVER_FULL, own_keys=keys, away_after="5s") as made:
        yield made


def told(node: TempoletNode, words: str) -> str:
    """Wait until `tempolet images` says something; returns all that it says."""

    def said() -> str:
        code, said = tempolet(node, "images")
        return said if code == 0 and words in said else ""

    answer: str = node.until(said, f"tempolet images tells: {words}")
    return answer


async def entries_of(node: TempoletNode) -> list[tuple[EntryKind, str]]:
    """Return what the history of the node's workflow tells of the outage: kind and name of each entry."""
    client = await node.client()
    workflow_id = names.node_workflow_id(node.name)
    converter = client.data_converter.with_context(WorkflowSerializationContext(client.namespace, workflow_id))
    first = [one async for one in client.list_workflows(f"WorkflowId = '{workflow_id}'")][-1]
    history = await client.get_workflow_handle(workflow_id, run_id=first.run_id).fetch_history()
    found = []
    for event in history.events:
        signal = event.workflow_execution_signaled_event_attributes
        if signal.signal_name == names.WHILE_AWAY:
            (part,) = await converter.decode(signal.input.payloads, [WhileAway])
            found += [(one.kind, one.name) for one in part.entries]
    return found


def test_images_are_collected_and_prepulled(node: TempoletNode, own: Containerd, registry: Registry) -> None:
    """By what the poller says meanwhile; the workflow then knows it, its history tells it, and it goes on."""
    wanted, later = (f"{registry.host}/{name}:1" for name in ("wanted", "later"))
    node.apply(pod_manifest("user"))
    node.until_running("user")
    suspend(node.temporal)
    configure(node, NEVER_FULL, EVERY_SECOND | {"prepull": [wanted]})
    node.until(lambda: wanted in images(own), "prepulled")
    told(node, f"{wanted} prepulled")
    configure(node, FULL, EVERY_SECOND)
    node.until(lambda: wanted not in images(own), "removed")
    told(node, "removed: the disk is")
    assert images(own) == {*BUSYBOXES, PAUSE_IMAGE}
    resume(node.temporal)
    node.until(lambda: "handed the node's images back to Temporal" in node.log("worker"), "handed back")
    said = told(node, f"{wanted} prepulled")
    assert "removed: the disk is" in said
    entries = wait(entries_of(node))
    assert (EntryKind.COMPLETED, names.PREPULL_IMAGE) in entries
    assert (EntryKind.COMPLETED, names.REMOVE_IMAGE) in entries
    configure(node, NEVER_FULL, EVERY_SECOND | {"prepull": [later]})
    node.until(lambda: later in images(own), "prepulled by the workflow")
    told(node, f"{later} prepulled")
