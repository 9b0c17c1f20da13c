"""Memory that a burst took and nobody uses any more, given back to the system.

Around the whole life of worker and poller. A 110-pod start leaves free pages all over glibc's heaps, and glibc gives back
only what lies at their ends: 8 MB of the two processes together.
"""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

EVERY: Final = timedelta(minutes=1)
"""A trim takes a few milliseconds of a thread of its own."""


@contextlib.asynccontextmanager
async def giving_memory_back(every: timedelta = EVERY) -> AsyncIterator[None]:
    """Trim the heaps now and then while the block runs; without glibc there is nothing to do."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return

    async def now_and_then() -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            await asyncio.to_thread(trim, 0)

    trimming = asyncio.create_task(now_and_then())
    try:
        yield
    finally:
        trimming.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await trimming
