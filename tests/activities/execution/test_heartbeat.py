"""Does a long activity send heartbeats, and a short one none?"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.execution.heartbeat import heartbeating, waiting_until
from proto.temporal.activities.heartbeats import Waits

pytestmark = pytest.mark.jumping_clock


async def step(seconds: float, words: tuple[str, ...]) -> None:
    """Set each text for a while."""
    async with heartbeating("begun") as heart:
        for word in words:
            await asyncio.sleep(seconds)
            heart.say(word)
        await asyncio.sleep(seconds)


async def heard(timeout: timedelta | None, seconds: float, *words: str) -> list[Any]:
    """Run the activity and return its heartbeats."""
    beats: list[Any] = []
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_timeout=timeout)
    environment.on_heartbeat = beats.append
    await environment.run(step, seconds, words)
    await asyncio.sleep(0.05)
    return beats


async def test_a_long_step_beats_within_its_timeout_and_tells_the_newest_word() -> None:
    """Three within one timeout; none after the end."""
    beats = await heard(timedelta(seconds=0.09), 0.2, "later")
    assert beats[0] == "begun"
    assert beats[-1] == "later"
    assert len(beats) >= 6


async def test_a_short_step_does_not_beat() -> None:
    """Most activities are short."""
    assert await heard(timedelta(seconds=5), 0.01) == []


async def test_without_a_timeout_nobody_listens() -> None:
    """Nothing is sent."""
    assert await heard(None, 0.01) == []


async def waits(at_once: bool) -> None:
    """Wait for two things, one after the other and beside each other."""
    async with heartbeating("mount"):

        async def wait(what: str, seconds: float) -> None:
            with waiting_until(what, at_once=at_once):
                await asyncio.sleep(seconds)

        await asyncio.gather(wait("it is attached", 0.2), wait("it is staged", 0.4))
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("at_once", [pytest.param(True, id="at-once"), pytest.param(False, id="next-time")])
async def test_what_an_activity_waits_for(at_once: bool) -> None:
    """Each as long as it lasts."""
    beats: list[Any] = []
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=0.09))
    environment.on_heartbeat = beats.append
    await environment.run(waits, at_once)
    both = Waits("mount", ("it is attached", "it is staged"))
    told = [one for number, one in enumerate(beats) if number == 0 or one != beats[number - 1]]
    first = [Waits("mount", ("it is attached",))] if at_once else []
    assert told == [*first, both, Waits("mount", ("it is staged",)), "mount"]


def test_a_wait_outside_of_an_activity_is_told_nobody() -> None:
    """As when a volume is published again."""
    with waiting_until("it is attached", at_once=True):
        pass
