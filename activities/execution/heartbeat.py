"""Heartbeats of long activities.

Wrapped around everything that may take over a second. A cancellation arrives only with a heartbeat. The first one is
sent only after a while: most activities end before, and each heartbeat has a cost.
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
    """A running heartbeat; `say` changes its details."""

    def __init__(self, details: object) -> None:
        self.details = details

    def say(self, details: object) -> None:
        """Set the details of the next heartbeats; never a secret."""
        self.details = details


@asynccontextmanager
async def heartbeating(details: object) -> AsyncIterator[Heartbeat]:
    """Send heartbeats while the block runs, at a third of the activity's heartbeat timeout; without one, none."""
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
