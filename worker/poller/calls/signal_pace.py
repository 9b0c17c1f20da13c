"""Holds back signals that somebody can cause at will, so that they do not fill a pod's history: edits and given conditions.

Used by the sources of pods. The first ones are sent at once, later ones at growing intervals, and each has the newest
content: what was changed in between is not recorded (activities/execution/growing_intervals.py).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from activities.execution.growing_intervals import RecentRecordsByName

_log: Final = structlog.get_logger(__name__)


class SignalPace:
    """The pace of each key's signals; used from one event loop."""

    def __init__(self, due: Callable[[list[str]], None]) -> None:
        """`due` is called with a key whose signal was held back and may be sent now."""
        self._due = due
        self._sent = RecentRecordsByName()
        self._waits: dict[str, asyncio.TimerHandle] = {}

    def holds_back(self, key: str, pod: str) -> bool:
        """Report whether a key's next signal has to wait; `pod` is its name for the log."""
        if key in self._waits:
            return True
        now = time.time()
        delay = self._sent.of(key).due_at(now) - now
        if delay <= 0:
            return False
        _log.info("changed often: the newest content is sent later", pod=pod, seconds=round(delay))
        self._waits[key] = asyncio.get_running_loop().call_later(delay, self._wait_is_over, key)
        return True

    def sent(self, key: str) -> None:
        """Note that a signal was sent."""
        self._sent.of(key).add(time.time())

    def close(self) -> None:
        """End all waits."""
        for wait in self._waits.values():
            wait.cancel()

    def _wait_is_over(self, key: str) -> None:
        del self._waits[key]
        self._due([key])
