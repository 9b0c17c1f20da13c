"""Runs a loop beside the rest of a process, for as long as a block runs.

Used for what a process does periodically (volumes, logs, storage limits, behaviours, freed memory), and for loops that serve or
send: endpoints, events, registration of CSI drivers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from worker.daemon.loop_restarts import restart_on_error


@asynccontextmanager
async def in_background(name: str, loop: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run the loop while the block runs, restarted if it fails; then cancel it, and wait until it has ended."""
    task = asyncio.create_task(restart_on_error(name, loop), name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def repeat(every: timedelta, action: Callable[[], Awaitable[object]]) -> None:
    """Wait and act, for ever; the first action comes after the first wait. An error of the action ends it."""
    while True:
        await asyncio.sleep(every.total_seconds())
        await action()
