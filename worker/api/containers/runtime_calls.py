"""CRI calls made for a request, with the runtime's errors as HTTP statuses.

The statuses are the kubelet's (cri-streaming/pkg/streaming/errors.go), except that an invalid request is 400 and an unavailable
runtime 503, where the kubelet answers 500.
"""

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final, TypeVar

import grpc

from activities.clients.cri_error import CriError
from worker.api.containers.named_pod import FoundPod, quoted
from worker.api.responses.responses import Refused

_T = TypeVar("_T")

_STATUSES: Final = {
    grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: HTTPStatus.SERVICE_UNAVAILABLE,
}


async def runtime_result(call: Awaitable[_T]) -> _T:
    """Await a CRI call; raises Refused with the runtime's message."""
    try:
        return await call
    except CriError as error:
        raise Refused(_STATUSES.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR), str(error)) from None


def running_container(pod: FoundPod, container: str) -> str:
    """Return the id of a running container; raises Refused (404; the kubelet answers 500 in the same words)."""
    if not (container_id := pod.running(container)):
        raise Refused(HTTPStatus.NOT_FOUND, f"container not found ({quoted(container)})")
    return container_id
