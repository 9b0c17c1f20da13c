"""Makes the calls that each key needs, one at a time, until none is needed.

What a key needs is computed before each call (level-triggered), so a failed call is simply needed again. Failures of
one key do not delay the others.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

from activities.clients.api_server.errors import ApiAway
from activities.execution.one_by_one import log_bad_item
from worker.poller.calls.temporal_calls import TemporalUnavailable

RETRY_FIRST: Final = timedelta(milliseconds=100)
RETRY_LONGEST: Final = timedelta(seconds=5)
RETRY_REFUSED: Final = timedelta(seconds=20)


Call = TypeVar("Call")


class CallOutdated(Exception):
    """What a key needs has changed while its call waited: the next call is computed."""


class Needs(Protocol[Call]):
    """What a Reconciler works for."""

    def next_call(self, key: str) -> Call | None:
        """Return the next call for a key; None if none is needed now."""

    async def make(self, key: str, call: Call) -> None:
        """Make a call; may raise CallOutdated."""

    def refused(self, key: str, call: Call | None, error: Exception | None) -> None:
        """Handle the result of a call for a key; `error` is None if it succeeded or no call is needed."""


class Reconciler(Generic[Call]):
    """Runs one task for each key that needs calls."""

    def __init__(self, needs: Needs[Call]) -> None:
        self._needs = needs
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    def is_at(self, key: str) -> bool:
        """Report whether calls for a key are in progress."""
        return key in self._tasks

    def changed(self, key: str) -> None:
        """Signal that a key's needs have changed: a key that waits after a failure is retried at once."""
        if event := self._changed.get(key):
            event.set()

    def go(self, keys: Iterable[str]) -> None:
        """Start the calls that these keys need."""
        for key in keys:
            if key not in self._tasks and self._next(key) is not None:
                self._changed[key] = asyncio.Event()
                self._tasks[key] = asyncio.create_task(self._converge(key), name=f"pod {key}")

    async def close(self) -> None:
        """Stop calling; what is still needed is computed again at the next start."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _next(self, key: str) -> Call | None:
        """Return the next call; None also for a key whose needs cannot be computed, which must not affect others."""
        try:
            return self._needs.next_call(key)
        except Exception as error:  # noqa: BLE001 - as above
            log_bad_item("calls that pods need", key, error)
            return None

    async def _converge(self, key: str) -> None:
        changed, wait = self._changed[key], RETRY_FIRST
        try:
            while (call := self._next(key)) is not None:
                changed.clear()
                try:
                    with contextlib.suppress(CallOutdated):
                        await self._needs.make(key, call)
                    self._needs.refused(key, None, None)
                    wait = RETRY_FIRST
                    continue
                except (TemporalUnavailable, ApiAway):
                    pause, wait = wait, min(wait * 2, RETRY_LONGEST)
                except Exception as error:  # noqa: BLE001 - other pods must not be affected
                    pause = RETRY_REFUSED
                    self._needs.refused(key, call, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause.total_seconds()):
                        await changed.wait()
            self._needs.refused(key, None, None)  # a refused call may not be needed any more
        finally:
            del self._tasks[key], self._changed[key]
