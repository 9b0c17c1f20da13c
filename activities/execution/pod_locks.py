"""Locks that let one activity at a time work on an object of a pod.

Temporal may run an activity again while its first try still waits for the runtime (a lost heartbeat, a restarted
workflow task), and a look-up followed by a creation is safe only under a lock. Stops and removals take none: they are
idempotent, and a stop lasts as long as its grace period.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PodLocks:
    """Locks by key; a lock without a holder or waiter is dropped."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of `key`: a pod's full name, or its UID with a container's name."""
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
