"""Tell Temporal that a long step is still alive.

Wrapped around everything that may last over a second. A heartbeat is also the way by which a cancel arrives. The first
one goes out only when the step has lasted a while: most do not, and each costs (design §4.7).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from temporalio import activity

LONGEST_PAUSE: Final = timedelta(seconds=20)
_SHARE: Final = 3
"""Heartbeats in one heartbeat timeout: two may be lost."""


class Heartbeat:
    """The running heartbeat; `say` changes what it tells from the next one on."""

    def __init__(self, details: object) -> None:
        self.details = details

    def say(self, details: object) -> None:
        """Set what the next heartbeats tell; no secret belongs into it."""
        self.details = details


@asynccontextmanager
async def heartbeating(details: object) -> AsyncIterator[Heartbeat]:
    """Heartbeat while the block runs, by the activity's own timeout; without one there is nobody to tell."""
    heart = Heartbeat(details)
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield heart
        return
    pause = min(timeout / _SHARE, LONGEST_PAUSE).total_seconds()
    loop = asyncio.get_running_loop()

    def beat() -> None:
        activity.heartbeat(heart.details)
        timers.append(loop.call_later(pause, beat))
        timers.pop(0)

    timers = [loop.call_later(pause, beat)]
    try:
        yield heart
    finally:
        timers[0].cancel()
