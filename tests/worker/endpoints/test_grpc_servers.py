"""Does a gRPC server end wholly when it is cancelled?"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.patience import PATIENCE
from worker.endpoints.grpc_servers import serve_until_cancelled


class Hangs(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # it takes none when it runs
    """Answers no request."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def service(self, handler_call_details: Any) -> Any:  # noqa: ARG002 - gRPC's
        """Handle every method."""
        return grpc.unary_unary_rpc_method_handler(self._hang)

    async def _hang(self, request: bytes, context: Any) -> bytes:  # noqa: ARG002 - gRPC's
        self.asked.set()
        await asyncio.Event().wait()
        return b""


async def test_a_cancelled_server_has_stopped_at_the_return(tmp_path: Path) -> None:
    """Its requests have ended too, and the library has said that it is done with the server."""
    address, hangs = f"unix:{tmp_path}/socket", Hangs()
    server = grpc.aio.server(handlers=[hangs])
    server.add_insecure_port(address)
    serving = asyncio.create_task(serve_until_cancelled(server))
    async with grpc.aio.insecure_channel(address) as channel:
        request = asyncio.ensure_future(_ask(channel))
        await hangs.asked.wait()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        assert await server.wait_for_termination(0) is False, "no cancelled future: the server has ended"
        with pytest.raises(grpc.aio.AioRpcError):
            await request


async def _ask(channel: grpc.aio.Channel) -> bytes:
    answer: bytes = await channel.unary_unary("/any/Method", None, None)(b"", timeout=PATIENCE)
    return answer
