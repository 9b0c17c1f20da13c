"""Does a file system that hangs cost one thread and a short wait, and never the results of others?"""

import asyncio
import threading
from functools import partial

from worker.stats.disks.bounded_reads import MOST_THREADS, BoundedReads


async def test_what_answers_is_told_and_kept() -> None:
    """Read once while the result is valid."""
    asked: list[str] = []
    tried: BoundedReads[str, int] = BoundedReads(keep=60, wait=10)

    def ask() -> int:
        asked.append("a")
        return 7

    assert await tried.all({"a": ask}) == {"a": 7}
    assert await tried.all({"a": ask}) == {"a": 7}
    assert asked == ["a"]
    assert await tried.all({}) == {}


async def test_an_answer_is_kept_for_whom_it_was_made() -> None:
    """Two endpoints request it in turn, one of them only a part."""
    asked: list[str] = []
    tried: BoundedReads[str, None] = BoundedReads(keep=60, wait=10)
    of_one, of_both = {"a": lambda: asked.append("a")}, {one: partial(asked.append, one) for one in ("a", "b")}
    for _ in range(3):
        assert (await tried.all(of_both)).keys() == {"a", "b"}
        assert (await tried.all(of_one)).keys() == {"a"}
    assert sorted(asked) == ["a", "b"]


async def test_a_hanging_one_holds_nobody_up_and_is_asked_once() -> None:
    """Its result counts when it comes after all."""
    answers, calls = threading.Event(), []
    tried: BoundedReads[str, int] = BoundedReads(keep=60, wait=2)  # long enough for a busy machine to start a thread

    def hang() -> int:
        calls.append(1)
        answers.wait(30)
        return 1

    assert await tried.all({"hung": hang, "fine": lambda: 2}) == {"fine": 2}
    tried._wait = 0.2
    assert await tried.all({"hung": hang, "fine": lambda: 2}) == {"fine": 2}
    assert len(calls) == 1
    answers.set()
    tried._wait = 30
    assert await tried.all({"hung": hang, "fine": lambda: 2}) == {"hung": 1, "fine": 2}


async def test_no_more_threads_hang_than_may() -> None:
    """The rest is read when a thread is free."""
    answers = threading.Event()
    tried: BoundedReads[int, bool] = BoundedReads(keep=60, wait=0.2)
    questions = {number: lambda: answers.wait(30) for number in range(3 * MOST_THREADS)}
    before = threading.active_count()
    assert await tried.all(questions) == {}
    assert threading.active_count() - before <= MOST_THREADS
    answers.set()
    tried._wait = 30
    assert len(await tried.all(questions)) == 3 * MOST_THREADS


async def test_a_defect_keeps_no_place() -> None:
    """As many as there are threads, and then one that works."""
    tried: BoundedReads[int, int] = BoundedReads(keep=60, wait=60)

    def broken() -> int:
        raise KeyError("unexpected")

    assert await tried.all(dict.fromkeys(range(2 * MOST_THREADS), broken)) == {}
    assert await tried.all({-1: lambda: 7}) == {-1: 7}


async def test_what_fails_has_no_answer() -> None:
    """Such as a volume that is unmounted meanwhile."""

    def fail() -> int:
        raise OSError("gone")

    tried: BoundedReads[str, int] = BoundedReads(keep=0, wait=10)
    assert await tried.all({"a": fail, "b": lambda: 1}) == {"b": 1}
    await asyncio.sleep(0)
