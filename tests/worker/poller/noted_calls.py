"""Records calls for a test, and lets them fail as the test wants."""

import asyncio
from collections.abc import Callable


class NotedCalls:
    """Writes calls down; a class that plays somebody is made of it, and notes in each of its methods."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures: list[Exception] = []
        """How the next calls fail, one each."""
        self._more = asyncio.Event()

    def note(self, call: str) -> None:
        """Write a call down, and fail it where the test says so."""
        self.calls.append(call)
        self._more.set()
        if self.failures:
            raise self.failures.pop(0)

    async def until(self, count: int) -> None:
        """Wait for so many calls, and let what follows the last one happen."""
        await self._wait(lambda: len(self.calls) >= count)
        for _ in range(5):
            await asyncio.sleep(0)

    async def until_last(self, call: str) -> None:
        """Wait until this one is the last."""
        await self._wait(lambda: self.calls[-1:] == [call])

    async def _wait(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not true():
                self._more.clear()
                await self._more.wait()
