"""Both ends of a streamed connection: a TLS client, and a server like the runtime's streaming server."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from tests.cluster.certificates import Signed
from tests.patience import PATIENCE
from worker.api.responses.responses import Refused

SWITCHED: Final = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class StreamingServer:
    """Accepts one upgrade request per connection, then runs the test's script."""

    script: Script
    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    ended: list[asyncio.Event] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["StreamingServer"]:
        """Serve on loopback while the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/exec/token"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = asyncio.Event()
        self.ended.append(over)
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            await self.script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            over.set()


@dataclass
class Served:
    """Serves handlers as the node's API does: over TLS, cancelled when their client disconnects."""

    certificate: Signed
    runner: web.AppRunner | None = None
    port: int = 0
    cut_off: int = 0
    """Requests that were cancelled."""

    @contextlib.asynccontextmanager
    async def serving(self, handler: Handler, path: str = "/{rest:.*}") -> AsyncIterator["Served"]:
        """Serve while the block runs."""
        application = web.Application(middlewares=[self._at_the_door])
        application.router.add_route("*", path, handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        self.runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = self.runner.addresses[0][1]
        try:
            yield self
        finally:
            await self.runner.cleanup()

    @web.middleware
    async def _at_the_door(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as refused:
            return refused.answer()
        except TimeoutError:
            self.cut_off += 1
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError from None

    @property
    def connections(self) -> int:
        """Count the connections that the server still has."""
        assert self.runner is not None
        assert self.runner.server is not None
        return len(self.runner.server.connections)

    def client_context(self) -> ssl.SSLContext:
        """Trust only this server's CA."""
        return ssl.create_default_context(cafile=str(self.certificate.certificate.with_name("ca.crt")))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a TLS connection."""
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.client_context(), limit=1 << 20)

    async def upgraded(
        self, path: str = "/", protocol: str = "SPDY/3.1", *more: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Request an upgrade; returns the connection and the response head."""
        reader, writer = await self.connect()
        lines = [f"POST {path} HTTP/1.1", "Host: node", "Connection: Upgrade", f"Upgrade: {protocol}", *more]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        return reader, writer, await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
