"""A circuit breaker for the API server: after a failed call, all calls wait for a pause, and then one call tries it.

Used by the keeper from one event loop. Each failure after a pause doubles the next pause; any response from the server ends
it at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
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
        self._closed = True
        self._pause = FIRST_PAUSE
        self._pause_over = asyncio.Event()
        self._pause_over.set()
        self._pausing: asyncio.TimerHandle | None = None
        self._trial = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Make one call in the block, when its turn has come: calls are made one at a time until the server answers."""
        if self._closed:
            yield
            return
        async with self._trial:
            await self._pause_over.wait()
            yield

    def trip(self, error: ApiAway) -> None:
        """Delay calls by a pause, at least as long as the server asked for."""
        if not self._pause_over.is_set():
            return  # another call has already failed
        self._closed = False
        self._pause_over.clear()
        requested = error.retry_after.total_seconds() if error.retry_after else 0.0
        pause, self._pause = max(self._pause, requested), min(self._pause * 2, LONGEST_PAUSE)
        _log.info("statuses of pods wait for the API server", err=str(error), seconds=pause)
        self._pausing = asyncio.get_running_loop().call_later(pause, self._pause_over.set)

    def reset(self) -> None:
        """End the pause: the server answers."""
        self._closed = True
        self._pause = FIRST_PAUSE
        self._pause_over.set()
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None
