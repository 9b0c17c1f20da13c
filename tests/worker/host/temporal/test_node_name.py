"""Does a machine notice that another one has taken its node's name, and keep it while no other one has?"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.temporal import names
from proto.temporal.node import NodeStart
from proto.temporal.ticket import UNTICKETED, Ticket
from tests.patience import PATIENCE
from tests.worker.host.temporal.test_other_machines import Nothing
from worker.host.temporal import other_machines
from worker.host.temporal.node_name import UNREADABLE, NodeName, Standing, standing
from worker.temporal.temporal_client import TemporalSettings, connect, prepare
from workflows.decide.versions import CURRENT_NODE

OTHER = "worker/n1/host/m22222222-boot2222-1"
OURS, LATER_EPOCH, THEIRS = Ticket("ours", 1), Ticket("ours", 3), Ticket("theirs")


@pytest.mark.parametrize(
    ("alive", "perhaps", "run", "expected"),
    [
        pytest.param([], [], OURS, Standing.OURS, id="nobody-else-polls"),
        pytest.param([], [], THEIRS, Standing.OURS, id="the-other-machine-is-gone"),
        pytest.param([], [], None, Standing.OURS, id="an-empty-database"),
        pytest.param([OTHER], [], OURS, Standing.OURS, id="the-other-one-has-taken-nothing"),
        pytest.param([OTHER], [], LATER_EPOCH, Standing.OURS, id="our-run-after-a-switch"),
        pytest.param([OTHER], [], UNTICKETED, Standing.OURS, id="a-run-of-a-release-without-tickets"),
        pytest.param([OTHER], [], THEIRS, Standing.TAKEN, id="taken"),
        pytest.param([OTHER], [], UNREADABLE, Standing.TAKEN, id="taken-with-other-keys"),
        pytest.param([OTHER], [], None, Standing.UNSURE, id="it-has-started-no-run-yet"),
        pytest.param([], [OTHER], THEIRS, Standing.UNSURE, id="it-may-be-gone"),
        pytest.param([], [OTHER], OURS, Standing.OURS, id="it-may-be-gone-and-has-taken-nothing"),
    ],
)
def test_whose_name_it_is(alive: Sequence[str], perhaps: Sequence[str], run: Ticket | None, expected: Standing) -> None:
    """By who polls, and whose run the node's own workflow is."""
    assert standing(alive, perhaps, run, OURS) is expected


def test_a_machine_without_a_ticket_has_nothing_to_keep() -> None:
    """Its own files are lost."""
    assert standing([OTHER], [], THEIRS, None) is Standing.TAKEN


@dataclass
class Machines:
    """Two machines of one node name; the second one polls when the test lets it."""

    node: str
    ours: Client
    theirs: Client

    def __post_init__(self) -> None:
        self.name = NodeName(self.ours, self.node, lambda: OURS)

    @asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """Let the other machine poll while the block runs."""
        queue = names.node_task_queue(self.node)
        runner = UnsandboxedWorkflowRunner()
        async with Worker(self.theirs, task_queue=queue, workflows=[Nothing], workflow_runner=runner):
            yield

    async def start_run(self, client: Client, ticket: Ticket) -> None:
        """Start the node's own workflow, in place of one that is open."""
        await client.start_workflow(
            names.NODE_WORKFLOW,
            NodeStart(self.node, CURRENT_NODE, ticket=ticket),
            id=names.node_workflow_id(self.node),
            task_queue=names.node_task_queue(self.node),
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
        )

    async def until(self, expected: Standing) -> None:
        """Let the other machine poll again and again until this one finds this standing."""
        async with asyncio.timeout(PATIENCE):
            while await self.name.look() is not expected:
                async with self.polling():
                    await self.name.look()


@pytest.fixture
async def machines(settings: TemporalSettings) -> AsyncIterator[Machines]:
    """Return two machines, neither of which polls."""
    node = f"n{uuid.uuid4().hex[:8]}"
    ours, theirs = [await connect(settings, identity=f"worker/{node}/host/m{n * 8}-boot-1") for n in "12"]
    await prepare(ours, settings)
    made = Machines(node, ours, theirs)
    await made.start_run(ours, OURS)
    yield made
    await ours.get_workflow_handle(names.node_workflow_id(node)).terminate()


async def test_a_machine_that_was_replaced_notices_it(machines: Machines) -> None:
    """Not by the polls alone; and once the other one is gone it takes the name back."""
    assert await machines.name.is_ours()
    async with machines.polling():
        assert await machines.name.is_ours(), "its run goes on"
    await machines.start_run(machines.theirs, THEIRS)
    await machines.until(Standing.TAKEN)
    assert machines.name.taken.is_set()
    assert "has taken over node" in machines.name.taken_by
    assert not await machines.name.is_ours()
    assert machines.name.unsure, "nothing is sent to Temporal"


async def test_the_name_is_taken_back(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the other machine has not polled for a while; until then that is told."""
    monkeypatch.setattr(other_machines, "LOOK_EVERY", other_machines.LOOK_EVERY / 100)
    await machines.start_run(machines.theirs, THEIRS)
    await machines.until(Standing.TAKEN)
    monkeypatch.setattr(other_machines, "GONE_AFTER", timedelta(seconds=1))
    told: list[str] = []
    async with asyncio.timeout(PATIENCE):
        await machines.name.until_ours(waits=told.append, refused=told.append)
    assert told
    assert machines.name.taken_by == ""
    assert not machines.name.taken.is_set()
    assert not machines.name.unsure


async def test_a_temporal_that_does_not_answer_leaves_it_open(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is handed back before it is known."""

    async def fail(*_: object) -> None:
        raise RuntimeError("no connection")

    with monkeypatch.context() as cut_off:
        cut_off.setattr("worker.host.temporal.node_name.pollers", fail)
        assert not await machines.name.is_ours()
        assert machines.name.unsure
        assert machines.name.taken_by == ""
    assert await machines.name.is_ours()
    assert not machines.name.unsure
