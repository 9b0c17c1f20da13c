"""Polling for conditions without an event, and counting what must not remain."""

import asyncio
import os
from collections.abc import Callable
from typing import Final

from tests import patience

PATIENCE: Final = patience.PATIENCE


async def until(holds: Callable[[], bool], what: str = "what the test waits for") -> None:
    """Wait for a condition of another process, thread or connection; raises TimeoutError."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise TimeoutError(f"not after {PATIENCE} s: {what}") from None


def descriptors() -> int:
    """Count this process's open descriptors."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number is needed
