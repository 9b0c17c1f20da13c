"""How many heavy calls the runtime gets at once.

RunPodSandbox, CreateContainer and StartContainer go through it, nothing else: containerd starts 110 pods sooner with
two calls a core than with all of them (design §5), and a stop, a removal or an exec must never wait behind a start.
A call that takes longer than `stale_after` gives its permit back while it goes on, so one bad pod stops no other.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta


class StartLimit:
    """Permits for calls that start something; first come, first served."""

    def __init__(self, permits: int, stale_after: timedelta = timedelta(seconds=5)) -> None:
        if permits < 1:
            raise ValueError(f"the start limit is {permits}; it must let at least one call through")
        self._permits = asyncio.Semaphore(permits)
        self._stale_after = stale_after.total_seconds()

    @asynccontextmanager
    async def permit(self) -> AsyncIterator[None]:
        """Hold a permit around a call, for `stale_after` at most."""
        await self._permits.acquire()
        given_back = False

        def give_back() -> None:
            nonlocal given_back
            if not given_back:
                given_back = True
                self._permits.release()

        timer = asyncio.get_running_loop().call_later(self._stale_after, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()
