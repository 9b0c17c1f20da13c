"""Every CRI call counted and timed, for a process that traces nothing (`observe.CallObserver` does both)."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import grpc.aio


class Measure(Protocol):
    """Where a finished call is counted."""

    def __call__(self, call: str, seconds: float, *, failed: bool) -> None:
        """Take the CRI's name of the call, how long it took, and whether it failed."""


class CallTimer(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Sees every unary CRI call."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        """Wait for the call's end to time it; the caller gets the finished call."""
        _, name = called(client_call_details)
        start = time.perf_counter()
        call = await continuation(client_call_details, request)
        code = await code_of(call)
        self._measure(name, time.perf_counter() - start, failed=code is not grpc.StatusCode.OK)
        return call


def called(details: grpc.aio.ClientCallDetails) -> tuple[str, str]:
    """Name the service and the method that are called."""
    path = details.method.decode() if isinstance(details.method, bytes) else details.method
    service, _, name = path.lstrip("/").partition("/")
    return service, name


async def code_of(call: Any) -> grpc.StatusCode:
    """Wait for a call's end; who gives it up meanwhile ends it."""
    try:
        code: grpc.StatusCode = await call.code()
    except asyncio.CancelledError:
        call.cancel()  # waiting for a code, unlike waiting for the answer, doesn't end the call by itself
        raise
    return code
