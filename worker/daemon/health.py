"""When each loop of a process last turned; what `Service` is given to feed the watchdog by."""

import time
from datetime import timedelta
from typing import Final

_STUCK_AFTER: Final = 3
"""Turns of a loop that may be missed before the process counts as stuck."""
_SLOWEST_TURN: Final = timedelta(minutes=2)
"""A rescan of a slow network folder, a listing of a busy runtime."""


class LoopHealth:
    """The turns of one process's loops."""

    def __init__(self, process: str = "poller") -> None:
        self._process = process
        self._turns: dict[str, tuple[float, float]] = {}

    def turn(self, loop: str, every: timedelta) -> None:
        """Take that a loop turns, and how often it should."""
        self._turns[loop] = (time.monotonic(), (every * _STUCK_AFTER + _SLOWEST_TURN).total_seconds())

    def __call__(self) -> str:
        """Name a loop that does not turn any more; empty when all do."""
        now = time.monotonic()
        stuck = [loop for loop, (last, limit) in self._turns.items() if now - last > limit]
        return f"the {self._process}'s loop for {stuck[0]} does not turn any more" if stuck else ""
