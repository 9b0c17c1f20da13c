"""A circuit breaker for the API server: after a failed call, all calls wait for a pause.

Used by the keeper from one event loop. Each failure after a pause doubles the next pause; any response from the server ends
it at once.
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
    """Closed while the API server answers, as in electricity: calls pass."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self._closed.set()
        self._pause = FIRST_PAUSE

    async def wait(self) -> None:
        """Wait until the pause is over."""
        await self._closed.wait()

    def trip(self, error: ApiAway) -> None:
        """Delay calls by a pause, at least as long as the server asked for."""
        if not self._closed.is_set():
            return  # another call has already failed
        self._closed.clear()
        requested = error.retry_after.total_seconds() if error.retry_after else 0.0
        pause, self._pause = max(self._pause, requested), min(self._pause * 2, LONGEST_PAUSE)
        _log.info("statuses of pods wait for the API server", err=str(error), seconds=pause)
        asyncio.get_running_loop().call_later(pause, self._closed.set)

    def reset(self) -> None:
        """End the pause: the server answers."""
        self._pause = FIRST_PAUSE
        self._closed.set()
