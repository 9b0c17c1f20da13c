"""Knows which pods are cleaned up, by the snapshots that workflows publish, so that a round can await its victim's end."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

from proto.pod_snapshot import PodSnapshot

Publish = Callable[[PodSnapshot], None]


class Cleanups:
    """Takes each snapshot; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}

    def after(self, publish: Publish) -> Publish:
        """Return a function that passes each snapshot on, and then wakes whoever awaits it."""

        def publish_and_wake(snapshot: PodSnapshot) -> None:
            publish(snapshot)
            self._wake(snapshot)

        return publish_and_wake

    def _wake(self, snapshot: PodSnapshot) -> None:
        if snapshot.released:
            with self._lock:
                awaited = self._awaited.pop(snapshot.uid, None)
            if awaited:
                awaited[0].call_soon_threadsafe(awaited[1].set)

    def expect(self, uid: str) -> asyncio.Event:
        """Return what is set once this pod is cleaned up; called before the pod is stopped."""
        ended = asyncio.Event()
        with self._lock:
            self._awaited[uid] = (asyncio.get_running_loop(), ended)
        return ended

    def forget(self, uid: str) -> None:
        """Expect it no longer."""
        with self._lock:
            self._awaited.pop(uid, None)


async def within(time: timedelta, ended: asyncio.Event) -> bool:
    """Wait for an end, for so long at most; report whether it came."""
    try:
        async with asyncio.timeout(time.total_seconds()):
            await ended.wait()
    except TimeoutError:
        return False
    return True
