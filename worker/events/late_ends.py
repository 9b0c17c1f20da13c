"""Tells of pods that their node ends and that have not ended in time: ExceededGracePeriod (pkg/kubelet/pod_workers.go killPodNow).

Used by a cluster's worker with each snapshot, from any thread. How long a pod may take is in its snapshot. A worker that starts goes on
waiting for those whose time is not over; as with a kubelet, an end that was due while no worker ran is not told.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle
from worker.events.event import WARNING, ObjectReference, Occurrence

REASON: Final = "ExceededGracePeriod"
MESSAGE: Final = "Container runtime did not kill the pod within specified grace period."


class LateEnds:
    """The ends that are awaited on one node."""

    def __init__(self, tell: Callable[[Occurrence], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._due: dict[str, tuple[datetime, ObjectReference]] = {}
        self._told: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def know(self, snapshots: Iterable[PodSnapshot]) -> None:
        """Take the snapshots of an earlier worker, which has told of what was late then."""
        now = datetime.now(UTC)
        for one in snapshots:
            with contextlib.suppress(ValueError):  # a file may hold anything
                if one.end_awaited_until and datetime.fromisoformat(one.end_awaited_until) <= now:
                    self._told.add(one.uid)
                self.publish(one)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Await a pod's end, or await it no longer; returns at once."""
        until, uid = snapshot.end_awaited_until, snapshot.uid
        with self._lock:
            if not until or snapshot.lifecycle == Lifecycle.TERMINATED:
                self._due.pop(uid, None)
                self._told.discard(uid)
            elif uid not in self._told and uid not in self._due:
                about = ObjectReference("Pod", snapshot.name, uid, snapshot.namespace)
                self._due[uid] = datetime.fromisoformat(until), about
                if self._loop is not None:
                    with contextlib.suppress(RuntimeError):  # the loop has ended, and with it this process
                        self._loop.call_soon_threadsafe(self._changed.set)

    async def run(self) -> None:
        """Tell until cancelled; sleeps while no end is awaited."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            pause = self._tell_late(datetime.now(UTC))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    def _tell_late(self, now: datetime) -> float | None:
        """Tell of those whose time is over; return the seconds until the next one's is."""
        with self._lock:
            late = [about for until, about in self._due.values() if until <= now]
            for one in late:
                del self._due[one.uid]
                self._told.add(one.uid)
            pause = min(((until - now).total_seconds() for until, _ in self._due.values()), default=None)
        for one in late:
            self._tell(Occurrence(one, WARNING, REASON, MESSAGE))
        return pause
