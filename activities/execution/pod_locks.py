"""One doer at a time for each thing of a pod.

Temporal may run a step again while its first try still waits for the runtime (a lost heartbeat, a restarted workflow
task), and a look-up followed by a creation is only safe when nobody creates in between. Stops and removals take no
lock: they are idempotent by CRI's word, and a stop lasts its whole grace.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PodLocks:
    """Locks by key, forgotten when nobody holds or awaits them."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of `key`: a pod's full name, or its uid with a container's name."""
        lock, holders = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, holders + 1)
        try:
            async with lock:
                yield
        finally:
            lock, holders = self._locks[key]
            if holders == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, holders - 1)

    def __len__(self) -> int:
        return len(self._locks)
