"""Removals that containerd refuses because of a task that its CRI has lost.

If the caller of StartContainer vanishes at a certain moment of the start (a worker is killed), containerd's CRI gives the start up, but keeps
the task: the container counts as ended, and neither it nor its sandbox can be removed until containerd is restarted ("cannot delete
running task"). The container's program never ran. containerd's own API ends such a task.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient

GONE_WITHIN: Final = 20.0
"""Seconds for a killed task to end."""
_PAUSE_SECONDS: Final = 0.2

_log: Final = structlog.get_logger(__name__)


async def without_lost_tasks(remove: Callable[[], Awaitable[None]], runtime: RuntimeClient) -> None:
    """Call a removal, and remove the lost tasks that it meets first; raises CriError."""
    wait_until = monotonic() + GONE_WITHIN
    while True:
        try:
            await remove()
        except CriError as error:
            if not error.lost_task or monotonic() > wait_until:
                raise
            if await runtime.remove_lost_task(error.lost_task):
                _log.warning("removed a task that the runtime had lost", containerID=error.lost_task)
                continue
        else:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
