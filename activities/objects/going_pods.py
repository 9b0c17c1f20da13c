"""Which pods go, as far as this worker was told, so that a step which hangs is given up instead of waited for.

Told by the worker with each snapshot that a workflow publishes, asked by RunPodSandbox and StartContainer: a cancel of
the activity would arrive only with a heartbeat, and would have to stand in the history. It is a hint: a worker that was
not told waits for the call's own deadline, and what a step had half made when it was given up is found by the re-read
that follows each failure. Probing asks, too: of a pod that goes nobody needs to know whether it lives.
"""

import asyncio
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final, TypeVar

GIVEN_UP_AFTER: Final = timedelta(seconds=5)
"""A step that works is over by then, and leaves nothing half made."""
_Answer = TypeVar("_Answer")
_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class GivenUpError(Exception):
    """A step was ended because its pod goes; says after how long."""


class GoingPods:
    """The uids of pods that are being terminated; `tell` may be called from any thread."""

    def __init__(self, given_up_after: timedelta = GIVEN_UP_AFTER) -> None:
        self.given_up_after = given_up_after
        self._lock = threading.Lock()
        self._going: set[str] = set()
        self._waiters: dict[str, list[_Waiter]] = {}

    def tell(self, uid: str, *, going: bool) -> None:
        """Take whether a pod is being terminated now."""
        with self._lock:
            if not going:
                self._going.discard(uid)
                return
            if uid in self._going:
                return
            self._going.add(uid)
            waiters = list(self._waiters.get(uid, ()))
        for loop, event in waiters:
            loop.call_soon_threadsafe(event.set)

    def goes(self, uid: str) -> bool:
        """Say whether a pod is being terminated, as far as we were told."""
        with self._lock:
            return uid in self._going

    async def unless_it_goes(self, uid: str, step: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Do a step; raises GivenUpError when it is not done a few seconds after its pod began to go."""
        work = asyncio.create_task(step)
        told = asyncio.create_task(self._told(uid))
        try:
            await asyncio.wait((work, told), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait((work,), timeout=self.given_up_after.total_seconds())
            if not work.done():
                waited = self.given_up_after.total_seconds()
                raise GivenUpError(f"given up {waited:g} s after the pod began to go")
            return work.result()
        finally:
            work.cancel()
            told.cancel()
            await asyncio.gather(work, told, return_exceptions=True)

    async def _told(self, uid: str) -> None:
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if uid in self._going:
                return
            self._waiters.setdefault(uid, []).append(waiter)
        try:
            await waiter[1].wait()
        finally:
            with self._lock:
                left = [one for one in self._waiters.pop(uid) if one is not waiter]
                if left:
                    self._waiters[uid] = left
