"""Is a pod that its node ends, and that does not end in time, told of once?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle
from tests.patience import PATIENCE
from worker.events.event import ObjectReference, Occurrence
from worker.events.late_ends import LateEnds

WORDS = "Container runtime did not kill the pod within specified grace period."


def ending(name: str, seconds: float, lifecycle: Lifecycle = Lifecycle.TERMINATING) -> PodSnapshot:
    """Build the snapshot of a pod whose end is awaited so long."""
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    return PodSnapshot("", "n", "default", name, name, "api", "", lifecycle, end_awaited_until=until)


class Told:
    """What was told, as it comes."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Occurrence] = asyncio.Queue()
        self.ends = LateEnds(self.queue.put_nowait)

    async def next(self) -> Occurrence:
        """Return the next one."""
        async with asyncio.timeout(PATIENCE):
            return await self.queue.get()


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    """Await ends; one worker before saw a pod that was late then, one that is not yet, and one that nobody ends."""
    made = Told()
    bad = replace(ending("bad", 0), end_awaited_until="soon")
    made.ends.know([ending("late", -1), bad, ending("slow", 0.2), replace(ending("web", 0), end_awaited_until="")])
    task = asyncio.create_task(made.ends.run())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_each_is_told_once_in_the_kubelets_words(told: Told) -> None:
    """Also of one for which an earlier worker waited; not of what that worker has told."""
    assert await told.next() == Occurrence(
        ObjectReference("Pod", "slow", "slow", "default"), "Warning", "ExceededGracePeriod", WORDS
    )
    for _ in range(2):
        told.ends.publish(ending("late", -1))
        told.ends.publish(ending("slow", -1))
    told.ends.publish(ending("another", 0))
    assert (await told.next()).about.name == "another"
    assert told.queue.empty()


async def test_one_that_ends_in_time_is_not_told_of(told: Told) -> None:
    """Nor is one that its source lets go, or another pod of the same name that nobody ends."""
    told.ends.publish(ending("slow", 1, Lifecycle.TERMINATED))
    told.ends.publish(ending("quick", 0.1))
    told.ends.publish(ending("quick", 0.1, Lifecycle.TERMINATED))
    told.ends.publish(ending("stuck", 0.3))
    assert (await told.next()).about.name == "stuck"
    assert told.queue.empty()


async def test_a_snapshot_from_another_thread_wakes_the_loop(told: Told) -> None:
    """Workflow tasks run in threads."""
    assert (await told.next()).about.name == "slow"
    await asyncio.to_thread(told.ends.publish, ending("other", 0))
    assert (await told.next()).about.name == "other"


async def test_what_has_ended_is_forgotten(told: Told) -> None:
    """A static pod keeps its uid, and may be ended again."""
    assert (await told.next()).about.name == "slow"
    told.ends.publish(ending("slow", 0, Lifecycle.TERMINATED))
    told.ends.publish(ending("slow", 0))
    assert (await told.next()).about.name == "slow"
