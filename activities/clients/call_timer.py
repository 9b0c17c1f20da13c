"""Counts and times CRI calls, for a process without tracing (`observe.CallObserver` does both)."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import grpc.aio


class Measure(Protocol):
    """Records a finished call."""

    def __call__(self, call: str, seconds: float, *, failed: bool) -> None:
        """Take the CRI's name of the call, its duration, and whether it failed."""


class CallTimer(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """A gRPC interceptor for all unary CRI calls."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        """Wait for the end of the call to time it; the caller gets the finished call."""
        _, name = method_of(client_call_details)
        start = time.perf_counter()
        call = await continuation(client_call_details, request)
        code = await code_of(call)
        self._measure(name, time.perf_counter() - start, failed=code is not grpc.StatusCode.OK)
        return call


def method_of(details: grpc.aio.ClientCallDetails) -> tuple[str, str]:
    """Return the service and the method of a call."""
    path = details.method.decode() if isinstance(details.method, bytes) else details.method
    service, _, name = path.lstrip("/").partition("/")
    return service, name


async def code_of(call: Any) -> grpc.StatusCode:
    """Wait for the end of a call; cancelling the wait cancels the call."""
    try:
        code: grpc.StatusCode = await call.code()
    except asyncio.CancelledError:
        call.cancel()  # unlike waiting for the response, waiting for the code does not cancel the call by itself
        raise
    return code
