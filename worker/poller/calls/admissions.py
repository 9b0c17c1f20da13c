"""Admissions that may wait for a pod's hardware; one whose pod goes meanwhile ends at once.

Used by `manifest_pods` and `api_pods` in their calls.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from proto.temporal.pod_inputs import Rejected
from worker.poller.calls.reconciler import CallOutdated

TOLD_AFTER: Final = 2.0
"""Seconds until an operator is told of an admission that takes long."""
TOLD_EVERY: Final = 5.0
"""What it waits for may change meanwhile."""
NOT_ADMITTED_YET: Final = "this node has not admitted it yet; it may have to stop other pods for it first"


class Admissions:
    """Those of one source of pods, by uid; used from one event loop."""

    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Future[Rejected | None]] = {}

    async def answer(self, uid: str, asked: Awaitable[Rejected | None], waits: Callable[[], None]) -> Rejected | None:
        """Wait for an answer; raises CallOutdated once the pod waits no longer. `waits` is called now and then if it takes long."""
        pending = self._pending[uid] = asyncio.ensure_future(asked)
        loop = asyncio.get_running_loop()
        telling: asyncio.TimerHandle

        def tell() -> None:
            nonlocal telling
            telling = loop.call_later(TOLD_EVERY, tell)
            waits()

        telling = loop.call_later(TOLD_AFTER, tell)
        try:
            return await pending
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if uid in self._pending or (here and here.cancelling()):
                raise
            raise CallOutdated from None
        finally:
            telling.cancel()
            if self._pending.get(uid) is pending:
                del self._pending[uid]

    def cancel(self, uid: str) -> None:
        """Have a pod wait no longer, if it does."""
        if pending := self._pending.pop(uid, None):
            pending.cancel()
