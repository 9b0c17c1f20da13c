"""containerd's own tasks, below CRI: to end one that its CRI has lost.

The service stands on the socket of CRI. Its two requests are written out here, since their messages have nothing else for us
(api/services/tasks/v1/tasks.proto).
"""

from typing import Any, Final

import grpc

_SERVICE: Final = "/containerd.services.tasks.v1.Tasks/"
_NAMESPACE: Final = (("containerd-namespace", "k8s.io"),)
"""containerd's CRI has its containers there."""
_SIGKILL_TO_ALL: Final = b"\x18\x09\x20\x01"
"""KillRequest: field 3, signal, is 9; field 4, all, is true."""


async def remove_task(channel: Any, container_id: str, seconds: float) -> bool:
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
