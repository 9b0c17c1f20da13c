"""Does a hanging file system delay no other, and do the others need no threads?"""

import asyncio
import threading

import pytest

from tests.patience import PATIENCE
from worker.host import bounded_threads
from worker.host.bounded_threads import USUAL, BoundedThreadPool, install_bounded_thread_pool


def ours() -> int:
    """Count the threads of the pool that are there."""
    return sum(one.name.startswith("files") for one in threading.enumerate())


async def test_hung_files_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many tasks hang as there are threads, and the next one still runs."""
    install_bounded_thread_pool()
    monkeypatch.setattr(bounded_threads, "HUNG_AFTER", 0.05)
    answers = threading.Event()
    waiting = [asyncio.create_task(asyncio.to_thread(answers.wait)) for _ in range(2 * USUAL)]
    try:
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "works"), PATIENCE) == "works"
    finally:
        answers.set()
        await asyncio.gather(*waiting)


async def test_files_that_answer_have_the_usual_threads() -> None:
    """However many are asked at once."""
    install_bounded_thread_pool()
    before = ours()
    await asyncio.gather(*(asyncio.to_thread(lambda: None) for _ in range(500)))
    assert ours() <= before + USUAL


async def test_no_thread_is_started_once_it_is_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shutdown waits for one thread after the other, and leaves a word in the queue that wakes them."""
    pool = BoundedThreadPool(asyncio.get_running_loop())
    monkeypatch.setattr(bounded_threads, "HUNG_AFTER", 0)
    all_work, answers = threading.Barrier(USUAL + 1), threading.Event()
    hanging = [pool.submit(lambda: (all_work.wait(PATIENCE), answers.wait())) for _ in range(USUAL)]
    try:
        await asyncio.to_thread(all_work.wait, PATIENCE)
        pool.shutdown(wait=False)
        pool._look()
        assert len(pool._threads) == USUAL
    finally:
        answers.set()
        await asyncio.gather(*map(asyncio.wrap_future, hanging))
