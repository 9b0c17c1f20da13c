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
        method = client_call_details.method
        path = method.decode() if isinstance(method, bytes) else method
        start = time.perf_counter()
        call = await continuation(client_call_details, request)
        try:
            failed = await call.code() is not grpc.StatusCode.OK
        except asyncio.CancelledError:
            call.cancel()  # waiting for a code, unlike waiting for the answer, doesn't end the call by itself
            raise
        self._measure(path.rpartition("/")[2], time.perf_counter() - start, failed=failed)
        return call
