"""Is a pod led and removed whose run has reached a limit of Temporal?

It refuses every further signal, or Temporal has terminated the run itself.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from proto.pod_snapshot import PodSnapshot
from tests.free_ports import free_ports
from tests.node.containerd_view import containers_of, sandboxes_of
from tests.node.lives.test_interventions import run_inside
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node
from worker.poller.calls.pod_workflows import ENDED_FULL
from worker.standalone import temporal_server
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

MOST = 40
"""Signals that this Temporal takes in a run; 10,000 by default."""
LARGEST = 512 * 1024
"""Bytes of a run from which this Temporal terminates it; 50 MiB by default."""
LARGE = os.urandom(200 * 1024)
"""Payloads are compressed."""
ENDED_LARGE = "Workflow history size exceeds limit."
"""Temporal's own word."""
LIMITS = {
    ENDED_FULL: f"history.maximumSignalsPerExecution={MOST}",
    ENDED_LARGE: f"limit.historySize.error={LARGEST}",
}
"""Temporal's settings, by why a run ends."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(ENDED_FULL, id="many-signals"), pytest.param(ENDED_LARGE, id="large-signals")],
)
def limit(request: pytest.FixtureRequest) -> str:
    """Return why runs end."""
    return str(request.param)


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, node_dir: Path, limit: str
) -> Iterator[TempoletNode]:
    """Run a node on a Temporal of its own; visibility is compared every second instead of every minute."""
    settings = (*temporal_server.DYNAMIC_CONFIG, LIMITS[limit])
    place = f"few-{len(limit)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(temporal_server, "DYNAMIC_CONFIG", settings)
        with (
            TemporalServer(node_dir / place, node_dir / f"{place}-run", free_ports(1)[0]) as temporal,
            tempolet_node(tmp_path_factory.mktemp("node"), containerd, temporal, keys={"syncFrequency": "1s"}) as made,
        ):
            yield made


def fill(node: TempoletNode, pod: PodSnapshot, limit: str) -> str:
    """Signal a pod as a stranger until its run has reached the limit; returns the run."""
    return fill_in_number(node, pod) if limit == ENDED_FULL else fill_in_size(node, pod)


def fill_in_size(node: TempoletNode, pod: PodSnapshot) -> str:
    """Send large signals until Temporal has terminated the run."""

    async def send() -> str:
        client = await node.client()
        workflow_id = (await node.workflow(pod)).id
        run_id = (await client.get_workflow_handle(workflow_id).describe()).run_id
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        with suppress(RPCError):  # it is not there any more
            while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                await handle.signal("Anything", LARGE)
        return str(run_id)

    return asyncio.run(send())


def fill_in_number(node: TempoletNode, pod: PodSnapshot) -> str:
    """Signal a pod until Temporal refuses it; returns its run."""

    async def send() -> str:
        handle = await node.workflow(pod)
        with suppress(RPCError):
            for _ in range(MOST):
                await handle.signal("Anything")
        with pytest.raises(RPCError, match="limit for signal events"):
            await handle.signal("Anything")
        return str((await handle.describe()).run_id)

    return asyncio.run(send())


def end_of(node: TempoletNode, pod: PodSnapshot, run_id: str) -> str:
    """Return why a run was terminated; empty while it goes on."""

    async def read() -> str:
        handle = (await node.client()).get_workflow_handle((await node.workflow(pod)).id, run_id=run_id)
        *_, last = (await handle.fetch_history()).events

        return last.workflow_execution_terminated_event_attributes.reason

    return asyncio.run(read())


def test_it_is_removed(node: TempoletNode, limit: str) -> None:
    """Its run takes no deletion and is ended; what it has in the runtime is removed."""
    node.apply(pod_manifest("removed"))
    pod = node.until_running("removed")
    run_id = fill(node, pod, limit)
    node.remove("removed")
    node.until(lambda: not sandboxes_of(node.containerd, pod.uid), "its sandbox is removed")
    assert end_of(node, pod, run_id) == limit
    node.until_gone("removed")


def test_it_is_led_on(node: TempoletNode, limit: str) -> None:
    """A container that ends is started again, by another run; the other container is not."""
    manifest = pod_manifest("led", "until [ -e /tmp/end ]; do sleep 0.2; done")
    manifest["spec"]["containers"].append(pod_manifest("beside")["spec"]["containers"][0] | {"name": "beside"})
    node.apply(manifest)
    pod = node.until_running("led")
    run_id = fill(node, pod, limit)
    before = {one.id for one in containers_of(node.containerd, pod.uid)}
    run_inside(node, pod.containers["main"].container_id, "touch", "/tmp/end")
    node.until(lambda: {one.id for one in containers_of(node.containerd, pod.uid)} - before, "main is started again")
    assert end_of(node, pod, run_id) == limit
    led = node.until_running("led")
    assert led.containers["beside"].container_id == pod.containers["beside"].container_id
    node.take_away("led")
