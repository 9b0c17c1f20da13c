"""A proxy between the node's processes and Temporal, which refuses calls, delays them, loses replies, or breaks connections.

It passes bytes, headers and status details on, so a method that it does not know passes, too. The node dials a port of loopback.
"""

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Final, Self

import grpc
from grpc import aio

from tests.free_ports import free_ports

LARGEST: Final = 64 << 20
OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.enable_http_proxy", 0),
)
FAILURES: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
"""As a server answers that loses its shards, or cannot reach its store."""
OF_THE_WIRE: Final = ("grpc-", "te", "user-agent", "content-type", ":")
"""How the names of headers begin that each connection has of its own."""


@dataclass(slots=True)
class Trouble:
    """What happens to calls from now on."""

    refused: float = 0.0
    """The share of calls that fail before their effect."""
    lost: float = 0.0
    """The share whose effect happens, and whose reply is a failure."""
    seconds: float = 0.0
    """How much longer each takes."""


@dataclass
class TemporalProxy:
    """A context manager that serves in a thread of its own."""

    temporal: str
    """The address of Temporal, as TEMPORAL_ADDRESS takes it."""
    rng: Random = field(default_factory=Random)
    """Which calls are concerned: as many as they come, so not by a seed."""
    trouble: Trouble = field(default_factory=Trouble)
    struck: int = 0
    """Calls to which something was done."""

    def __enter__(self) -> Self:
        self.port = free_ports(1)[0]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="temporal-proxy", daemon=True)
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        """Where the node dials."""
        return f"127.0.0.1:{self.port}"

    def break_connections(self) -> None:
        """End every connection at once, with the calls that are under way; new ones are taken."""
        self._run(self._again())

    def _run(self, what: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _open(self) -> None:
        self._upstream = aio.insecure_channel(self.temporal, options=OPTIONS)
        await self._serve()

    async def _serve(self) -> None:
        self._server = aio.server(handlers=[_Any(self)], options=OPTIONS)
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def _again(self) -> None:
        await self._server.stop(grace=None)
        await self._serve()

    async def _close(self) -> None:
        await self._server.stop(grace=None)
        await self._upstream.close(grace=None)

    async def pass_on(self, path: str, request: bytes, context: "aio.ServicerContext[bytes, bytes]") -> bytes:
        """Pass one call on, after what is to happen to it."""
        trouble, drawn = self.trouble, self.rng.random()
        self.struck += bool(trouble.seconds or drawn < trouble.refused + trouble.lost)
        await asyncio.sleep(trouble.seconds)
        if drawn < trouble.refused:
            await context.abort(self.rng.choice(FAILURES), "chaos: refused")
        given = [one for one in context.invocation_metadata() or () if not str(one[0]).startswith(OF_THE_WIRE)]
        try:
            answer: bytes = await self._upstream.unary_unary(path, None, None)(
                request, timeout=context.time_remaining(), metadata=aio.Metadata(*given)
            )
        except aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", list(error.trailing_metadata()))  # type: ignore[arg-type]  # its pairs
        if drawn < trouble.refused + trouble.lost:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "chaos: the reply is lost")
        return answer


class _Any(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # it takes none when it runs
    def __init__(self, proxy: TemporalProxy) -> None:
        self._proxy = proxy

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        path = handler_call_details.method

        async def call(request: bytes, context: "aio.ServicerContext[bytes, bytes]") -> bytes:
            return await self._proxy.pass_on(path, request, context)

        return grpc.unary_unary_rpc_method_handler(call)
