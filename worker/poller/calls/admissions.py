"""Admissions that may wait for a pod's hardware; one whose pod goes meanwhile ends at once.

Used by `manifest_pods` and `api_pods` in their calls.
"""

import asyncio
from collections.abc import Awaitable

from proto.temporal.pod_inputs import Rejected
from worker.poller.calls.reconciler import CallOutdated


class Admissions:
    """Those of one source of pods, by uid; used from one event loop."""

    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Future[Rejected | None]] = {}

    async def answer(self, uid: str, asked: Awaitable[Rejected | None]) -> Rejected | None:
        """Wait for an answer; raises CallOutdated once the pod waits no longer."""
        pending = self._pending[uid] = asyncio.ensure_future(asked)
        try:
            return await pending
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if uid in self._pending or (here and here.cancelling()):
                raise
            raise CallOutdated from None
        finally:
            if self._pending.get(uid) is pending:
                del self._pending[uid]

    def cancel(self, uid: str) -> None:
        """Have a pod wait no longer, if it does."""
        if pending := self._pending.pop(uid, None):
            pending.cancel()
