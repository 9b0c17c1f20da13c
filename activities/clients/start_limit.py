"""How many heavy calls the runtime gets at once, and which goes first.

RunPodSandbox, CreateContainer and StartContainer go through it, nothing else: containerd starts 110 pods sooner with
two calls a core than with all of them (design §5), and a stop, a removal or an exec must never wait behind a start.
What is furthest goes first: sandboxes alone hold each other up in the kernel's network locks, and a container alone
leaves those idle, so 110 pods that go on one by one all run in two thirds of the time of 110 sandboxes followed by 110
containers. A call that takes longer than `stale_after` gives its permit back while it goes on, so one bad pod stops no other.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import IntEnum


class Turn(IntEnum):
    """Who goes first among those that wait: the lowest."""

    START_CONTAINER = 0
    CREATE_CONTAINER = 1
    RUN_POD_SANDBOX = 2


class StartLimit:
    """Permits for calls that start something; of one turn, first come, first served."""

    def __init__(self, permits: int, stale_after: timedelta = timedelta(seconds=5)) -> None:
        if permits < 1:
            raise ValueError(f"the start limit is {permits}; it must let at least one call through")
        self._free = permits
        self._waiting: list[tuple[Turn, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()
        self._stale_after = stale_after.total_seconds()

    @asynccontextmanager
    async def permit(self, turn: Turn) -> AsyncIterator[None]:
        """Hold a permit around a call, for `stale_after` at most."""
        await self._acquire(turn)
        given_back = False

        def give_back() -> None:
            nonlocal given_back
            if not given_back:
                given_back = True
                self._release()

        timer = asyncio.get_running_loop().call_later(self._stale_after, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()

    async def _acquire(self, turn: Turn) -> None:
        if self._free:  # then nobody waits
            self._free -= 1
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (turn, next(self._arrivals), given))
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():  # given in the moment of the cancel: pass it on
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, given = heapq.heappop(self._waiting)
            if not given.done():  # else it was cancelled while it waited
                given.set_result(None)
                return
        self._free += 1
