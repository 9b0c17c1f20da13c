"""Is the node's workflow told of decisions, merged and seldom, and of none while there are none?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta

import pytest

from proto.temporal.signals import PressureJudged
from tests.patience import PATIENCE
from worker.delivery.lead import LeadUnavailable
from worker.host.pressure import decision_news
from worker.host.pressure.decision_news import MOST_AN_HOUR, MOST_WAITING, DecisionNews
from workflows.decide.node.pressure_decisions import Decision

AT_ONCE = timedelta(0)


class Told:
    """A workflow that takes signals, or does not."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[list[str]] = asyncio.Queue()
        self.away = False
        self.refused = asyncio.Event()
        self.news = DecisionNews(self.take)

    async def take(self, signal: PressureJudged) -> None:
        """Take one."""
        if self.away:
            self.refused.set()
            raise LeadUnavailable("nobody leads the node")
        self.queue.put_nowait([one.words for one in signal.news])

    async def next(self) -> list[str]:
        """Return the next signal's lines."""
        async with asyncio.timeout(PATIENCE):
            return await self.queue.get()


@pytest.fixture
async def told(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Told]:
    """Run it without pauses."""
    monkeypatch.setattr(decision_news, "MERGED_FOR", AT_ONCE)
    monkeypatch.setattr(decision_news, "AGAIN", AT_ONCE)
    made = Told()
    task = asyncio.create_task(made.news.run())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_decisions_of_a_kind_are_told_together(told: Told) -> None:
    """With the newest figures; the oldest kinds are left out if there are many."""
    for number in range(3):
        told.news.tell(Decision("nobody", f"nobody to evict, {number} left"))
    told.news.tell(Decision("begins", "MemoryPressure begins"))
    assert await told.next() == [
        "nobody to evict, 2 left (3 times, the last as told here)",
        "MemoryPressure begins",
    ]
    for number in range(MOST_WAITING + 2):
        told.news.tell(Decision(str(number), str(number)))
    assert await told.next() == [str(number) for number in range(2, MOST_WAITING + 2)]


async def test_only_so_many_signals_an_hour(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes later waits, and is merged."""
    monkeypatch.setattr(decision_news, "AN_HOUR", timedelta(seconds=1))
    began = asyncio.get_running_loop().time()
    for number in range(MOST_AN_HOUR):
        told.news.tell(Decision(str(number), str(number)))
        assert await told.next() == [str(number)]
    told.news.tell(Decision("late", "first"))
    told.news.tell(Decision("late", "second"))
    assert await told.next() == ["second (2 times, the last as told here)"]
    assert asyncio.get_running_loop().time() - began >= 1


async def test_what_nobody_takes_is_told_later(told: Told) -> None:
    """Together with what has come since, in order."""
    told.away = True
    told.news.tell(Decision("a", "a"))
    told.news.tell(Decision("b", "b"))
    async with asyncio.timeout(PATIENCE):
        await told.refused.wait()
    told.news.tell(Decision("a", "a again"))
    told.away = False
    assert await told.next() == ["a again (2 times, the last as told here)", "b"]


async def test_nothing_is_sent_for_nothing(told: Told) -> None:
    """The loop rests until there is a decision."""
    await asyncio.sleep(0)
    assert told.queue.empty()
