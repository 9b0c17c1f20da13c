"""Does a pod end alike, led by Temporal, by the process, and by both in turn?"""

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from activities.execution.present_attempts import PresentAttempts
from proto.temporal import names
from proto.temporal.pod import NodeSettings, PodStart
from tests.activities.jumping_clock import JumpingClock
from tests.patience import PATIENCE
from tests.worker.stand_in.switches import settled
from tests.worker.stand_in.test_stand_in import plain_pod
from tests.worker.stand_in.test_switches import GOING, lived
from tests.worker.stand_in.world import World, copied
from tests.workflows.conftest import QUICK, client
from worker.host.pod_cache import publishing
from worker.stand_in.hand_back.returned import to_be_read_again
from worker.stand_in.journal.kept import Place, Start
from worker.stand_in.run_states import RunStates
from worker.tickets.tickets import Tickets
from workflows.extern import Decided
from workflows.pod import PodWorkflow

__all__ = ["client"]  # a fixture
SEEDS = (1, 5, 8)
TURNS = 4


class NewestState:
    """The newest state of one pod."""

    def __init__(self) -> None:
        self.start: Start | None = None

    def keep(self, _workflow_id: str, start: Start, _place: Place) -> None:
        """Keep a copy."""
        self.start = copied(start)

    def newest(self, _workflow_id: str) -> Start | None:
        """Return it."""
        return self.start

    def forget(self, _workflow_id: str) -> None:
        """Forget it."""
        self.start = None


class Ruled:
    """A pod whose lead changes between Temporal and this process."""

    def __init__(self, world: World, client: Client, folder: Path) -> None:
        self.world = world
        self.world.pace, self.world.settings = 0.1, settings()
        self.client = client
        self.tickets = Tickets(folder)
        self.states = RunStates(self.tickets, NewestState(), self.accepted)
        self.receives: Callable[[str, str, str], None] = self.world.running.received
        self.decided, self.loop = asyncio.Event(), asyncio.get_running_loop()
        meta = self.world.pod["metadata"]
        self.id = str(names.PodWorkflowId(self.world.node, meta["namespace"], meta["name"], meta["uid"]))
        self.handle = client.get_workflow_handle(self.id)

    def worker(self) -> Worker:
        """Work for this pod alone; its activities go through the registry that the process uses, too."""
        world = self.world
        return Worker(
            self.client,
            task_queue=names.node_task_queue(world.node),
            workflows=[PodWorkflow],
            activities=world.functions,
            workflow_runner=UnsandboxedWorkflowRunner(),
            interceptors=[
                publishing(world.snapshots.append, self.receives, self.states.keep),
                AttachingAttempts(world.running, PresentAttempts()),
            ],
        )

    def accepted(self, workflow_id: str, decided: Decided) -> None:
        """Note that a state is kept, in the thread of a workflow task."""
        self.world.running.state_kept(workflow_id, decided.run_id)
        self.loop.call_soon_threadsafe(self.decided.set)

    async def temporal_leads(self, start: PodStart) -> None:
        """Start a run."""
        self.decided.clear()
        ticket = self.tickets.draw(self.id)
        self.world.temporal = (
            self.handle.signal
        )  # a hint that comes too early is lost, but the run reads the runtime first
        await self.client.start_workflow(
            PodWorkflow.run,
            replace(start, ticket=ticket),
            id=self.id,
            task_queue=names.node_task_queue(self.world.node),
        )

    async def temporal_goes(self) -> PodStart:
        """Take the lead from the run, and end it; returns the state with which the process goes on."""
        self.tickets.raise_epoch(self.id)
        self.world.temporal = None
        state = await asyncio.to_thread(self.states.newest, self.id)
        await self.handle.terminate("Temporal is away")
        assert isinstance(state, PodStart)
        return state

    async def status(self) -> Any:
        """Return the pod's status, from whoever leads it."""
        led = self.world.led
        return settled(await self.handle.query(names.POD_STATUS) if self.world.temporal else led and led.pod_status())


def settings() -> NodeSettings:
    """Return back-offs that a test can await."""
    return QUICK


def world_of(seed: int) -> World:
    """Return the world of a drawn pod on a node of its own."""
    return World(seed, faults=False, node=f"n{uuid.uuid4().hex[:8]}")


async def expected(seed: int) -> list[Any]:
    """Lead the pod in the process alone, on a clock that jumps; returns status, outcome and hooks."""

    def ended() -> list[Any]:
        world = World(seed, faults=False)
        return [*JumpingClock().run_until_complete(lived(world, world.start())), hooks(world)]

    return await asyncio.to_thread(ended)


def hooks(world: World) -> Counter[str]:
    """Count how often each hook of each container has run, without ids that count."""
    counts: Counter[str] = Counter()
    for name, count in world.hooks_run.items():
        counts[name.rpartition(" ")[0]] += count
    return counts


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("turns", [0, TURNS], ids=["temporal-alone", "in-turn"])
async def test_a_pod_ends_alike_whoever_leads_it(client: Client, tmp_path: Path, seed: int, turns: int) -> None:
    """Status, restart counts and outcome; no hook ran twice."""
    status, outcome, hooks_run = await expected(seed)
    ruled = Ruled(world_of(seed), client, tmp_path)
    world = ruled.world
    async with ruled.worker(), asyncio.timeout(PATIENCE):
        await ruled.temporal_leads(world.start())
        for number in range(turns):
            await asyncio.sleep(world.chance("turn", number))
            await ruled.decided.wait()
            lead = world.lead(await ruled.temporal_goes())
            await asyncio.sleep(world.chance("return", number))
            assert world.led
            state, world.led = to_be_read_again(copied(world.led.hand_over())), None
            await lead
            assert isinstance(state, PodStart)
            await ruled.temporal_leads(state)
        while await ruled.status() != status:
            await ruled.decided.wait()
            ruled.decided.clear()
        await ruled.handle.signal(names.DELETION_REQUESTED, GOING)
        ended = await ruled.handle.result()
    assert not world.defects
    assert (ended["phase"], ended["restarts"]) == (outcome.phase, outcome.restarts)
    assert not hooks(world) - hooks_run  # fewer, if a container ended before its hook began


async def test_an_answer_that_no_kept_state_has_is_not_lost(client: Client, tmp_path: Path) -> None:
    """The lead is taken while the workflow task that received a hook's answer has not kept its state yet."""
    pod = plain_pod()
    pod["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["true"]}}}
    ruled = Ruled(World(0, pod, faults=False, node=f"n{uuid.uuid4().hex[:8]}"), client, tmp_path)
    world, loop = ruled.world, asyncio.get_running_loop()
    world.exits = False
    received, is_led = asyncio.Event(), threading.Event()

    def receives(workflow_id: str, run_id: str, key: str) -> None:
        """Stop the workflow's thread where it has the hook's answer, until the process leads the pod."""
        world.running.received(workflow_id, run_id, key)
        if key.startswith("hook/"):
            loop.call_soon_threadsafe(received.set)
            is_led.wait(PATIENCE)

    ruled.receives = receives
    async with ruled.worker(), asyncio.timeout(PATIENCE):
        await ruled.temporal_leads(world.start())
        await received.wait()
        lead = world.lead(await ruled.temporal_goes())
        while not ready(await ruled.status()):
            assert world.led
            await world.led._driver._changed.wait()
        is_led.set()
        assert world.led
        await world.led.deliver(names.DELETION_REQUESTED, GOING)
        await lead
    assert list(world.hooks_run.values()) == [1]


def ready(status: dict[str, Any]) -> bool:
    """Report whether a status says that the pod is ready."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
