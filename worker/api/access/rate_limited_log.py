"""Rate-limited warnings, for what unauthenticated clients can trigger as often as they like."""

import time
from collections.abc import Callable
from typing import Any, Final

INTERVAL: Final = 1.0
"""Minimum seconds between two warnings."""


class RateLimitedLog:
    """Logs one warning per interval, with the number of warnings suppressed before it."""

    def __init__(self, log: Any, clock: Callable[[], float] = time.monotonic) -> None:
        """Take structlog's logger and a monotonic clock in seconds."""
        self._log = log
        self._clock = clock
        self._logged_at, self._suppressed = -INTERVAL, 0

    def warning(self, what: str, **details: object) -> None:
        """Log the warning, or count it as suppressed."""
        now = self._clock()
        if now - self._logged_at < INTERVAL:
            self._suppressed += 1
            return
        self._log.warning(what, **details, notTold=self._suppressed)
        self._logged_at, self._suppressed = now, 0
