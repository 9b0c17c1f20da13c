"""Notices pods whose start Temporal has taken, and which nobody has decided about since: it may have gone away in between.

The worker leads the pods of which it knows the last decision, and takes the messages that Temporal does not take. Such a pod is neither. So its
start is sent again after a while, and at once when the worker begins to lead pods; what Temporal does not take then, the worker takes.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

FIRST_WAIT: Final = 10.0
"""Seconds from a start to the first look: more than the first decision takes among 110 pods."""
LONGEST_WAIT: Final = 160.0
"""Each wait is twice the one before, up to this: a Temporal that is slow gets no faster by more signals."""


class FirstDecisions:
    """The pods of one poller that were started, and not decided about yet; used from one event loop."""

    def __init__(
        self,
        is_awaited: Callable[[str], bool],
        tell_anew: Callable[[Collection[str]], None],
        *,
        first_wait: float = FIRST_WAIT,
    ) -> None:
        """Take whether a pod that was started still waits for its first decision, by its workflow id."""
        self._is_awaited, self._tell_anew, self._first_wait = is_awaited, tell_anew, first_wait
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def started(self, workflow_id: str) -> None:
        """Look after a while whether a pod that was started has been decided about."""
        if workflow_id not in self._timers:
            self._look_after(self._first_wait, workflow_id)

    def undecided(self) -> list[str]:
        """Return the pods that wait for their first decision."""
        return [one for one in self._timers if self._is_awaited(one)]

    def close(self) -> None:
        """Look no more."""
        for timer in self._timers.values():
            timer.cancel()

    def _look_after(self, wait: float, workflow_id: str) -> None:
        loop = asyncio.get_running_loop()
        self._timers[workflow_id] = loop.call_later(wait, self._look, wait, workflow_id)

    def _look(self, waited: float, workflow_id: str) -> None:
        del self._timers[workflow_id]
        if self._is_awaited(workflow_id):
            self._look_after(min(waited * 2, LONGEST_WAIT), workflow_id)
            self._tell_anew([workflow_id])
