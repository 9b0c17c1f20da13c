"""Holds up what needs the API server while that is away: one try stands for all.

Used by the keeper from one event loop. Each try that fails doubles the pause; whoever hears from the server again ends it at once.
"""

import asyncio
from typing import Final

import structlog

from activities.clients.api_server.api_server import ApiAway

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 10.0
"""Seconds between tries."""

_log: Final = structlog.get_logger(__name__)


class CircuitBreaker:
    """Open while the API server answers."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._pause = FIRST_PAUSE

    async def passed(self) -> None:
        """Wait until it is open."""
        await self._open.wait()

    def shut(self, error: ApiAway) -> None:
        """Let nobody pass for a while; the server may have said how long."""
        if not self._open.is_set():
            return  # another try has found out already
        self._open.clear()
        told = error.retry_after.total_seconds() if error.retry_after else 0.0
        pause, self._pause = max(self._pause, told), min(self._pause * 2, LONGEST_PAUSE)
        _log.info("statuses of pods wait for the API server", err=str(error), seconds=pause)
        asyncio.get_running_loop().call_later(pause, self._open.set)

    def open(self) -> None:
        """Take that the server answers."""
        self._pause = FIRST_PAUSE
        self._open.set()
