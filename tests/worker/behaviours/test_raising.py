"""Does a worker ask runs of an older behaviour to go on with the committed one, once, and only then?"""

import asyncio
import json
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from proto.temporal import names
from proto.temporal.node import NodeStart
from tests.worker.commands.test_reading_commands import Commands, listed, tempolet
from tests.workflows.conftest import Node, client, node, pod_json
from worker.behaviours import raising
from worker.behaviours.commitment import FILE, NEWEST, Behaviours, Commitment
from worker.behaviours.raising import Raising, raising_behaviours
from worker.behaviours.runs import Run, runs_of
from worker.commands.access.exits import Exit
from worker.temporal.executions import OPEN
from workflows.decide.versions import CURRENT, OLDEST, OLDEST_NODE

__all__ = ["client", "node", "tempolet"]  # fixtures of others

LOW = Behaviours(OLDEST, OLDEST_NODE)


@pytest.fixture
def commitment(tmp_path: Path) -> Commitment:
    """A node that is committed to the oldest numbers."""
    (tmp_path / FILE).write_text(json.dumps({"pods": LOW.pods, "node": LOW.node}))
    return Commitment(tmp_path)


async def signals_of(client: Client, workflow_id: str, run_id: str) -> int:
    """Count a run's signals of a commitment."""
    history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    told = [event.workflow_execution_signaled_event_attributes.signal_name for event in history.events]
    return told.count(names.BEHAVIOUR_COMMITTED)


async def until_open(client: Client, node: str, behaviour: int, workflow_id: str = "") -> Run:
    """Wait until visibility shows an open run of a behaviour: the node's one, or that of this workflow."""
    async with asyncio.timeout(60):
        while True:
            for run in [run async for run in runs_of(client, node, OPEN)]:
                if run.behaviour == behaviour and workflow_id in {"", run.workflow_id}:
                    return run
            await asyncio.sleep(0.05)


async def test_runs_are_raised_once_the_node_is_committed(
    node: Node,
    client: Client,
    commitment: Commitment,
    tempolet: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not before; each run is signalled once; afterwards only closed runs have the older number."""
    node.behaviour = OLDEST
    pod = pod_json(name=node.name)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await listed(client, node, 1)
    worker = Raising(client, node.name, commitment, pause=timedelta())
    old = await until_open(client, node.name, OLDEST)
    await worker.look()
    assert await signals_of(client, old.workflow_id, old.run_id) == 0
    commitment.commit()
    await worker.look()
    await worker.look()
    new = await until_open(client, node.name, CURRENT)
    assert await signals_of(client, old.workflow_id, old.run_id) == 1
    await worker.look()
    await worker.look()
    assert await signals_of(client, new.workflow_id, new.run_id) == 0
    monkeypatch.setattr(raising, "runs_of", None)
    await worker.look()  # and then no more
    tempolet.capsys.readouterr()  # the worker's log
    code, out, _ = await tempolet("behaviour", "--hostname-override", node.name, "-o", "json")
    rows = {(one["of"], one["behaviour"]): (one["open"], one["closed"]) for one in json.loads(out)["runs"]}
    assert (code, rows["pods", OLDEST], rows["pods", CURRENT]) == (Exit.DONE, (0, 1), (1, 0))
    await node.delete(node.newest(pod))


async def test_a_run_that_is_too_old_is_left_alone_and_told(
    node: Node, client: Client, commitment: Commitment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older release has to raise it."""
    node.behaviour = OLDEST
    pod = pod_json(name=node.name)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    old = await until_open(client, node.name, OLDEST)
    monkeypatch.setattr(raising, "LOWEST", NEWEST)
    commitment.commit()
    await Raising(client, node.name, commitment, pause=timedelta()).look()
    assert await signals_of(client, old.workflow_id, old.run_id) == 0
    await node.delete(node.newest(pod))


async def test_the_nodes_own_workflow_is_asked_too(client: Client, commitment: Commitment) -> None:
    """By its own numbers; here no worker answers, so only the signal is looked for."""
    name = f"n-{id(commitment):x}"
    handle = await client.start_workflow(
        names.NODE_WORKFLOW,
        NodeStart(name, OLDEST_NODE),
        id=names.node_workflow_id(name),
        task_queue=names.node_task_queue(name),
        search_attributes=TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), name)]),
    )
    old = await until_open(client, name, OLDEST_NODE)
    assert old.kind == "node"
    commitment.commit()
    await Raising(client, name, commitment, pause=timedelta()).look()
    assert await signals_of(client, handle.id, old.run_id) == 1
    await handle.terminate()


@pytest.mark.parametrize(
    "given",
    [pytest.param((), id="no-input"), pytest.param(("x",), id="a-text"), pytest.param(({}, {}), id="two-inputs")],
)
async def test_a_run_that_somebody_else_started_stops_no_other(
    client: Client, commitment: Commitment, given: tuple[object, ...]
) -> None:
    """Its number cannot be read, and it is left alone; ours is raised."""
    name = f"n-{uuid.uuid4().hex[:8]}"
    own = TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), name)])
    queue = names.node_task_queue(name)
    foreign = await client.start_workflow(
        names.POD_WORKFLOW, args=given, id=f"foreign-{name}", task_queue=queue, search_attributes=own
    )
    handle = await client.start_workflow(
        names.NODE_WORKFLOW,
        NodeStart(name, OLDEST_NODE),
        id=names.node_workflow_id(name),
        task_queue=queue,
        search_attributes=own,
    )
    old = await until_open(client, name, OLDEST_NODE, handle.id)
    commitment.commit()
    await Raising(client, name, commitment, pause=timedelta()).look()
    assert await signals_of(client, handle.id, old.run_id) == 1
    for one in (foreign, handle):
        await one.terminate()


class Unsteady:
    """Stands in for what is looked for again and again; Temporal is away at first."""

    def __init__(self) -> None:
        self.looks = 0
        self.enough = asyncio.Event()

    async def look(self) -> None:
        """Fail once."""
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("Temporal is away")
        self.enough.set()


async def test_a_temporal_that_is_away_is_asked_again() -> None:
    """The loop goes on, and ends with its worker."""
    unsteady = Unsteady()
    async with asyncio.timeout(60), raising_behaviours(unsteady, timedelta(milliseconds=1)):  # type: ignore[arg-type]  # plays Raising
        await unsteady.enough.wait()
    looks = unsteady.looks
    await asyncio.sleep(0)
    assert unsteady.looks == looks
