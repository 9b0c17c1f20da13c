"""Warnings that strangers can cause as often as they like: one line in a while, which tells how many were left out before it."""

import time
from collections.abc import Callable
from typing import Any, Final

INTERVAL: Final = 1.0
"""Seconds between two lines."""


class RateLimitedLog:
    """Tells warnings of one kind; whoever is let in nowhere must not fill the log either."""

    def __init__(self, log: Any, clock: Callable[[], float] = time.monotonic) -> None:
        """Take structlog's logger, and a monotonic clock in seconds."""
        self._log = log
        self._clock = clock
        self._told, self._untold = -INTERVAL, 0

    def warning(self, what: str, **details: object) -> None:
        """Log it, or count it."""
        now = self._clock()
        if now - self._told < INTERVAL:
            self._untold += 1
            return
        self._log.warning(what, **details, notTold=self._untold)
        self._told, self._untold = now, 0
