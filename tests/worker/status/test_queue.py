"""Is each key processed once however often it is added, and again if it is added meanwhile?"""

import asyncio

from tests.patience import PATIENCE
from worker.status.queue import WorkQueue


async def test_what_is_asked_for_twice_is_done_once() -> None:
    """A pod whose workflow publishes ten snapshots in a moment is patched once, with the last one."""
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(10):
        queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.done("a")
    queue.add("c")
    assert await queue.get() == "c"


async def test_what_is_asked_for_while_it_is_done_is_done_afterwards() -> None:
    """Two patches of one pod never run concurrently, and the later status is not lost."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    queue.done("a")
    assert await queue.get() == "a"


async def test_what_is_asked_for_later_comes_sooner_when_asked_for_now() -> None:
    """A refused status waits, a new one of the same pod does not."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 3600)
    queue.add("a")
    assert await asyncio.wait_for(queue.get(), PATIENCE) == "a"
    queue.done("a")
    queue.add_after("a", 0.001)
    queue.add_after("a", 3600)
    assert await asyncio.wait_for(queue.get(), PATIENCE) == "a"
