"""Do many pods' statuses cost one call while the API server is away, and none wait once it answers?"""

import asyncio
from datetime import timedelta
from typing import Final

import pytest

from activities.clients.api_server.errors import ApiAway
from tests.patience import PATIENCE
from worker.status import circuit_breaker
from worker.status.circuit_breaker import CircuitBreaker

WRITERS: Final = 8
AN_HOUR: Final = timedelta(hours=1)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause for a moment."""
    monkeypatch.setattr(circuit_breaker, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(circuit_breaker, "LONGEST_PAUSE", 0.02)


class Server:
    """An API server that is away, and says how many calls are made at once."""

    def __init__(self) -> None:
        self.breaker = CircuitBreaker()
        self.away = True
        self.tries = self.now = self.most_at_once = 0
        self.tried = asyncio.Event()

    async def write(self) -> None:
        """Write until it answers, as a worker of the keeper does."""
        while True:
            async with self.breaker.call():
                if await self._call():
                    self.breaker.reset()
                    return
                self.breaker.trip(ApiAway("no connection"))

    async def _call(self) -> bool:
        self.now += 1
        self.most_at_once = max(self.now, self.most_at_once)
        await asyncio.sleep(0)
        self.now -= 1
        self.tries += 1
        self.tried.set()
        return not self.away

    async def tries_are(self, number: int) -> None:
        """Wait for this many more tries."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(number):
                self.tried.clear()
                await self.tried.wait()


async def test_after_a_failure_one_call_stands_for_all() -> None:
    """However many wait."""
    server = Server()
    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(server.write())
        await server.tries_are(1)
        assert server.most_at_once == WRITERS, "all at once, until one has failed"
        server.most_at_once = 0
        await server.tries_are(5)
        assert server.most_at_once == 1
        server.away = False
    assert server.most_at_once == 1


async def test_an_answer_ends_the_pause() -> None:
    """Also one that another call has got."""
    breaker = CircuitBreaker()
    breaker.trip(ApiAway("no connection", retry_after=AN_HOUR))
    waiting = asyncio.create_task(_pass(breaker))
    await asyncio.sleep(0)
    assert not waiting.done()
    breaker.reset()
    await asyncio.wait_for(waiting, PATIENCE)


async def test_a_call_that_ends_otherwise_holds_up_no_other() -> None:
    """It was refused, or nothing was left to do: the next one tries."""
    breaker = CircuitBreaker()
    breaker.trip(ApiAway("no connection"))
    with pytest.raises(ValueError, match="refused"):
        async with breaker.call():
            raise ValueError("refused")
    await asyncio.wait_for(_pass(breaker), PATIENCE)


async def test_a_pause_that_was_ended_shortens_no_later_one() -> None:
    """The timer of the first is gone."""
    breaker, another = CircuitBreaker(), CircuitBreaker()
    for one in (breaker, another):
        one.trip(ApiAway("no connection"))
    breaker.reset()
    breaker.trip(ApiAway("no connection", retry_after=AN_HOUR))
    waiting = asyncio.create_task(_pass(breaker))
    await asyncio.wait_for(_pass(another), PATIENCE)  # by then the first pause would be over
    assert not waiting.done()
    waiting.cancel()


async def _pass(breaker: CircuitBreaker) -> None:
    async with breaker.call():
        pass
