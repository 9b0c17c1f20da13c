"""The ways in which the lead of a pod changes: each ends the present lead and begins the next."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from tests.worker.stand_in.world import World, copied

Switch = Callable[[World, "asyncio.Task[Any]"], Awaitable["asyncio.Task[Any]"]]
COUNTING: Final = (
    "containerID",
    "imageID",
    "startedAt",
    "finishedAt",
    "startTime",
    "lastTransitionTime",
    "lastProbeTime",
)
"""Fields with times, and with ids that count."""


async def handed_over(world: World, lead: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
    """End the lead at this very moment, whatever is under way."""
    assert world.led
    start, world.led = copied(world.led.hand_over()), None
    assert await lead is None
    await asyncio.sleep(0.2)
    return world.lead(start)


async def frozen(world: World, lead: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
    """End the lead once nothing is under way that changes something."""
    assert world.led
    assert await world.led.freeze(timedelta(minutes=1))
    return await handed_over(world, lead)


async def taken(world: World, lead: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
    """Go on from what the journal has, in the same process."""
    assert world.led
    world.led.hand_over()
    world.led = None
    await lead
    return world.lead(*world.journal.newest())


async def killed(world: World, lead: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
    """Go on from what the journal has, in another process; all that ran has ended somewhere in the middle."""
    world.led = None
    lead.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await lead
    await world.activities.stop(timedelta())
    for work in list(world.running._works.values()):
        work.task.cancel()
    world.boot()
    await asyncio.sleep(0.2)
    return world.lead(*world.journal.newest())


def settled(value: Any) -> Any:
    """Leave out times and ids."""
    if isinstance(value, dict):
        return {name: settled(one) for name, one in value.items() if name not in COUNTING}
    return [settled(one) for one in value] if isinstance(value, list) else value
