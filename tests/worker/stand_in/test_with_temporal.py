"""Does a pod end alike, led by Temporal, by the process, and by both in turn?"""

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.execution.attempts import AttachingAttempts
from activities.execution.present_attempts import PresentAttempts
from proto.temporal import names
from proto.temporal.node import NodeStart
from proto.temporal.pod import NodeSettings, PodStart
from tests.activities.jumping_clock import JumpingClock
from tests.patience import PATIENCE
from tests.worker.stand_in.switches import settled
from tests.worker.stand_in.test_switches import GOING, lived
from tests.worker.stand_in.world import World, copied
from tests.workflows.conftest import QUICK, client
from worker.host.pod_cache import publishing
from worker.processes.worker import sandbox_runner
from workflows.extern import Decided
from workflows.pod import PodWorkflow

__all__ = ["client"]  # a fixture
SEEDS = (1, 5, 8)
TURNS = 4
TASK_ENDS = 0.5
"""Seconds in which a workflow task that runs has kept its state: between an answer and that state a switch would lose the answer."""


class Ruled:
    """A pod whose lead changes between Temporal and this process."""

    def __init__(self, seed: int, client: Client) -> None:
        self.world = World(seed, faults=False, node=f"n{uuid.uuid4().hex[:8]}")
        self.world.pace, self.world.settings = 0.1, settings()
        self.client = client
        self.kept: PodStart | None = None
        """The newest state of the workflow."""
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
            workflow_runner=sandbox_runner(),
            interceptors=[
                publishing(world.snapshots.append, world.running.settled, self.keep),
                AttachingAttempts(world.running, PresentAttempts()),
            ],
        )

    def keep(self, _workflow_id: str, _decided: Decided, start: PodStart | NodeStart) -> None:
        """Keep a state, in the thread of a workflow task."""
        assert isinstance(start, PodStart)
        self.kept = copied(start)
        self.loop.call_soon_threadsafe(self.decided.set)

    async def temporal_leads(self, start: PodStart) -> None:
        """Start a run."""
        await self.client.start_workflow(
            PodWorkflow.run, start, id=self.id, task_queue=names.node_task_queue(self.world.node)
        )
        self.world.temporal = self.handle.signal

    async def temporal_goes(self) -> PodStart:
        """End the run; returns the state that the process has of it."""
        await self.handle.terminate("Temporal is away")
        await asyncio.sleep(TASK_ENDS)
        self.world.temporal = None
        assert self.kept
        return self.kept

    async def status(self) -> Any:
        """Return the pod's status, from whoever leads it."""
        led = self.world.led
        return settled(await self.handle.query(names.POD_STATUS) if self.world.temporal else led and led.pod_status())


def settings() -> NodeSettings:
    """Return back-offs that a test can await."""
    return QUICK


async def expected(seed: int) -> list[Any]:
    """Lead the pod in the process alone, on a clock that jumps."""

    def ended() -> list[Any]:
        world = World(seed, faults=False)
        return JumpingClock().run_until_complete(lived(world, world.start()))

    return await asyncio.to_thread(ended)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("turns", [0, TURNS], ids=["temporal-alone", "in-turn"])
async def test_a_pod_ends_alike_whoever_leads_it(client: Client, seed: int, turns: int) -> None:
    """Status, restart counts and outcome; no hook ran twice."""
    status, outcome = await expected(seed)
    ruled = Ruled(seed, client)
    world = ruled.world
    async with ruled.worker(), asyncio.timeout(PATIENCE):
        await ruled.temporal_leads(world.start())
        for number in range(turns):
            await asyncio.sleep(world.chance("turn", number))
            await ruled.decided.wait()
            lead = world.lead(await ruled.temporal_goes())
            await asyncio.sleep(world.chance("return", number))
            assert world.led
            state, world.led = copied(world.led.hand_over()), None
            await lead
            await ruled.temporal_leads(state)
        while await ruled.status() != status:
            await ruled.decided.wait()
            ruled.decided.clear()
        await ruled.handle.signal(names.DELETION_REQUESTED, GOING)
        ended = await ruled.handle.result()
    assert not world.defects
    assert (ended["phase"], ended["restarts"]) == (outcome.phase, outcome.restarts)
    assert set(world.hooks_run.values()) <= {1}
