"""Removals that containerd refuses because of a task that its CRI has lost.

If the caller of StartContainer vanishes at a certain moment of the start (a worker is killed), containerd's CRI gives the start up, but keeps
the task: the container counts as ended, and neither it nor its sandbox can be removed until containerd is restarted ("cannot delete
running task"). The container's program never ran. containerd's own API ends such a task.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

import grpc
import structlog

from activities.clients.cri_error import CriError

GONE_WITHIN: Final = 20.0
"""Seconds for a killed task to end."""
_PAUSE_SECONDS: Final = 0.2
_SERVICE: Final = "/containerd.services.tasks.v1.Tasks/"
"""On the socket of CRI. Its requests are written out here, since they have little for us (api/services/tasks/v1/tasks.proto)."""
_NAMESPACE: Final = (("containerd-namespace", "k8s.io"),)
"""containerd's CRI has its containers there."""
_SIGKILL_TO_ALL: Final = b"\x18\x09\x20\x01"
"""KillRequest: field 3, signal, is 9; field 4, all, is true."""

_log: Final = structlog.get_logger(__name__)


async def without_lost_tasks(remove: Callable[[], Awaitable[object]], channel: Any, seconds: float) -> None:
    """Call a removal, and remove the lost tasks that it meets first, each call within `seconds`; raises CriError."""
    wait_until = monotonic() + GONE_WITHIN
    while True:
        try:
            await remove()
        except CriError as error:
            if not error.lost_task or monotonic() > wait_until:
                raise
            if await _removed(channel, error.lost_task, seconds):
                _log.warning("removed a task that the runtime had lost", containerID=error.lost_task)
                continue
        else:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def _removed(channel: Any, container_id: str, seconds: float) -> bool:
    """Kill the task of a container, and remove it; returns whether it is removed. Another runtime than containerd has none."""
    wanted = container_id.encode()
    request = b"\x0a" + bytes([len(wanted)]) + wanted  # field 1, container_id, in both
    try:
        await _ask(channel, "Kill", request + _SIGKILL_TO_ALL, seconds)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:  # its process has ended
            return False
    try:
        await _ask(channel, "Delete", request, seconds)
    except grpc.aio.AioRpcError:  # it has not ended yet
        return False
    return True


async def _ask(channel: Any, method: str, request: bytes, seconds: float) -> None:
    call = channel.unary_unary(_SERVICE + method, request_serializer=bytes, response_deserializer=bytes)
    await call(request, timeout=seconds, metadata=_NAMESPACE)
