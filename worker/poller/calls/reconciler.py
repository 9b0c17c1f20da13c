"""Makes what is needed for each key, one call at a time, until nothing is: the engine behind the listers of pods.

What a key needs is asked anew before each call (level-triggered), so a call that failed is simply needed again. A key whose
call fails holds up no other.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

from activities.clients.api_server.errors import ApiAway
from worker.poller.calls.pod_workflows import TemporalUnavailable

RETRY_FIRST: Final = timedelta(milliseconds=100)
RETRY_LONGEST: Final = timedelta(seconds=5)
RETRY_REFUSED: Final = timedelta(seconds=20)


Call = TypeVar("Call")


class Needs(Protocol[Call]):
    """Whose calls are made."""

    def next_call(self, key: str) -> Call | None:
        """Say what a key needs next; None: nothing for now."""

    async def make(self, key: str, call: Call) -> None:
        """Make a call."""

    def refused(self, key: str, call: Call | None, error: Exception | None) -> None:
        """Take what a call for a key came to; without an error, one that went well, or that nothing is needed."""


class Reconciler(Generic[Call]):
    """One task for each key that needs something."""

    def __init__(self, needs: Needs[Call]) -> None:
        self._needs = needs
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    def is_at(self, key: str) -> bool:
        """Say whether calls for a key are under way."""
        return key in self._tasks

    def changed(self, key: str) -> None:
        """Take that a key needs something else now: one that waits after a failure looks again at once."""
        if event := self._changed.get(key):
            event.set()

    def go(self, keys: Iterable[str]) -> None:
        """Make what these keys need."""
        for key in keys:
            if key not in self._tasks and self._needs.next_call(key) is not None:
                self._changed[key] = asyncio.Event()
                self._tasks[key] = asyncio.create_task(self._converge(key), name=f"pod {key}")

    async def close(self) -> None:
        """Stop calling; what was not said is worked out again at the next start."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _converge(self, key: str) -> None:
        changed, wait = self._changed[key], RETRY_FIRST
        try:
            while (call := self._needs.next_call(key)) is not None:
                changed.clear()
                try:
                    await self._needs.make(key, call)
                    self._needs.refused(key, None, None)
                    wait = RETRY_FIRST
                    continue
                except (TemporalUnavailable, ApiAway):
                    pause, wait = wait, min(wait * 2, RETRY_LONGEST)
                except Exception as error:  # noqa: BLE001 - a pod that can't be sent must not stop the others
                    pause = RETRY_REFUSED
                    self._needs.refused(key, call, error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), pause.total_seconds())
            self._needs.refused(key, None, None)  # what was refused may not be needed any more
        finally:
            del self._tasks[key], self._changed[key]
