"""Does a long activity send heartbeats, and a short one none?"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.execution.heartbeat import heartbeating

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
