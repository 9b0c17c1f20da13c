"""Waiting for what nobody tells a test, and counting what must not stay."""

import asyncio
import os
from collections.abc import Callable
from typing import Final

from tests import patience

PATIENCE: Final = patience.PATIENCE


async def until(holds: Callable[[], bool], what: str = "what the test waits for") -> None:
    """Wait for what another process, thread or connection does; raises TimeoutError."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 - nobody tells us
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise TimeoutError(f"not after {PATIENCE} s: {what}") from None


def descriptors() -> int:
    """Count what this process holds open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number is asked
