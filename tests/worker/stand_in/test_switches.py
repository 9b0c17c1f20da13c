"""Does a pod end as it would have, whenever its lead changes, and is nothing done twice?"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.pod import PodStart
from proto.temporal.signals import DeletionRequested
from tests.worker.stand_in.switches import Switch, frozen, handed_over, killed, settled, taken
from tests.worker.stand_in.world import World

pytestmark = pytest.mark.jumping_clock
SEEDS = range(8)
MANY_SEEDS = range(8, 100)
LIVED = 120.0
"""Seconds until nothing happens any more."""
GOING = DeletionRequested("file", "ManifestRemoved", "web.yaml is gone")


async def lived(world: World, start: PodStart, switch: Switch | None = None, rate: float = 0.0) -> list[Any]:
    """Lead a pod until nothing happens any more, then until it is gone; returns what it then was each time."""
    rng = Random(world.seed)
    lead = world.lead(start)
    loop = asyncio.get_running_loop()
    over = loop.time() + LIVED
    while switch and (pause := rng.expovariate(rate)) < over - loop.time():
        await asyncio.sleep(pause)
        lead = await switch(world, lead)
    await asyncio.sleep(over - loop.time())
    assert world.led
    status = settled(world.led.pod_status())
    await world.led.deliver(names.DELETION_REQUESTED, GOING)
    async with asyncio.timeout(LIVED):
        outcome = await lead
    assert not world.defects
    assert (world.model.sandboxes, world.model.containers) == ({}, {})
    return [status, outcome]


SWITCHES = pytest.mark.parametrize(
    ("switch", "rate"),
    [
        pytest.param(handed_over, 0.5, id="handed-over"),
        pytest.param(frozen, 0.5, id="frozen-first"),
        pytest.param(taken, 0.5, id="taken-from-the-journal"),
        pytest.param(killed, 0.2, id="after-a-kill"),
    ],
)


@SWITCHES
async def test_a_life_with_switches_ends_as_one_without(switch: Switch, rate: float) -> None:
    """Statuses and restart counts; no hook ran twice, unless its process was killed. Each life has some 50 switches."""
    await all_end_alike(SEEDS, switch, rate)


@pytest.mark.stress
@SWITCHES
async def test_many_lives_with_switches_end_as_without(switch: Switch, rate: float) -> None:
    """The same for more seeds."""
    await all_end_alike(MANY_SEEDS, switch, rate)


async def all_end_alike(seeds: Iterable[int], switch: Switch, rate: float) -> None:
    """Lead each pod twice: without a switch, and with many at random moments."""
    for seed in seeds:
        without, world = World(seed), World(seed)
        ended = await lived(without, without.start())
        assert await lived(world, world.start(), switch, rate) == ended, f"seed {seed}"
        assert world.leads > 1
        if switch is not killed:
            assert set(world.hooks_run.values()) <= {1}, f"seed {seed}"
