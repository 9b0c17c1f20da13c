"""Pods that are being terminated, as far as this worker knows, so that a step that hangs for one of them can be abandoned.

The worker records each snapshot that a workflow publishes; RunPodSandbox, StartContainer, MountVolumes and probes ask. A
cancellation of the activity would arrive only with a heartbeat and would be written to the history. This is a hint: a worker
that does not know waits for the deadline of the call. What an abandoned step has half done is found when the runtime is read
again after the failure.
"""

import asyncio
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final, TypeVar

STEP_GRACE: Final = timedelta(seconds=5)
"""How long a step may continue after its pod began to terminate: enough for one that does not hang."""
_Answer = TypeVar("_Answer")
_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class PodTerminatingError(Exception):
    """A step was abandoned because its pod is terminating."""


class TerminatingPods:
    """The UIDs of pods that are being terminated."""

    def __init__(self, step_grace: timedelta = STEP_GRACE) -> None:
        self.step_grace = step_grace
        self._lock = threading.Lock()
        self._uids: set[str] = set()
        self._waiters: dict[str, list[_Waiter]] = {}

    def set(self, uid: str, *, terminating: bool) -> None:
        """Record whether a pod is being terminated; may be called from any thread."""
        with self._lock:
            if not terminating:
                self._uids.discard(uid)
                return
            if uid in self._uids:
                return
            self._uids.add(uid)
            waiters = list(self._waiters.get(uid, ()))
        for loop, event in waiters:
            loop.call_soon_threadsafe(event.set)

    def has(self, uid: str) -> bool:
        """Report whether a pod is known to be terminating."""
        with self._lock:
            return uid in self._uids

    async def unless_terminating(self, uid: str, step: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a step; raises PodTerminatingError if it still runs `step_grace` after its pod began to terminate."""
        work = asyncio.create_task(step)
        terminating = asyncio.create_task(self._wait(uid))
        try:
            await asyncio.wait((work, terminating), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait((work,), timeout=self.step_grace.total_seconds())
            if not work.done():
                grace = self.step_grace.total_seconds()
                raise PodTerminatingError(f"given up {grace:g} s after the pod began to terminate")
            return work.result()
        finally:
            work.cancel()
            terminating.cancel()
            await asyncio.gather(work, terminating, return_exceptions=True)

    async def _wait(self, uid: str) -> None:
        """Wait until a pod is terminating."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if uid in self._uids:
                return
            self._waiters.setdefault(uid, []).append(waiter)
        try:
            await waiter[1].wait()
        finally:
            with self._lock:
                left = [one for one in self._waiters.pop(uid) if one is not waiter]
                if left:
                    self._waiters[uid] = left
