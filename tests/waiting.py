"""Loops that wait for what gives no event: another process, its files, a connection, the kernel.

Each look takes CPU time from what is waited for, so looks come further apart the longer a wait lasts.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.patience import PATIENCE

Found = TypeVar("Found")
LOOKS: Final = (0.01, 0.05)
"""Seconds between two looks: the first, and the longest."""
_GROWS: Final = 1.2


def wait_until(
    holds: Callable[[], Found],
    what: str | Callable[[], str],
    seconds: float = PATIENCE,
    looks: tuple[float, float] = LOOKS,
) -> Found:
    """Look until something holds, and return what it answered; raises TimeoutError with what was awaited."""
    deadline = time.monotonic() + seconds
    pause, longest = looks
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(pause)
        pause = min(pause * _GROWS, longest)
    return found


async def until(holds: Callable[[], bool], what: str = "what the test waits for", seconds: float = PATIENCE) -> None:
    """Do the same beside what runs in this event loop."""
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(LOOKS[0])
    except TimeoutError:
        raise TimeoutError(f"not within {seconds:g} s: {what}") from None
