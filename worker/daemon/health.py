"""When each loop of a process last ran; `Service` feeds the watchdog by it."""

import time
from datetime import timedelta
from typing import Final

_STUCK_AFTER: Final = 3
"""Turns that a loop may miss before the process counts as stuck."""
_SLOWEST_TURN: Final = timedelta(minutes=2)
"""A rescan of a slow network folder, or a listing of a busy runtime."""


class LoopHealth:
    """The turns of one process's loops."""

    def __init__(self, process: str = "poller") -> None:
        self._process = process
        self._turns: dict[str, tuple[float, float]] = {}

    def turn(self, loop: str, every: timedelta) -> None:
        """Record that a loop runs, and its interval."""
        self._turns[loop] = (time.monotonic(), (every * _STUCK_AFTER + _SLOWEST_TURN).total_seconds())

    def __call__(self) -> str:
        """Return the name of a stuck loop; empty if none is."""
        now = time.monotonic()
        stuck = [loop for loop, (last, limit) in self._turns.items() if now - last > limit]
        return f"the {self._process}'s loop for {stuck[0]} is stuck" if stuck else ""
