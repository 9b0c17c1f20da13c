"""Connections, taken one by one and never more than so many: when all places are taken, the oldest idle one makes room.

asyncio's own server counts no handshakes, so that clients which connect and say nothing would be without bound. A client
that holds connections open without asking anything, or never ends its handshake, can't keep others out.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import structlog
from aiohttp import web

from worker.api.access.rate_limited_log import RateLimitedLog

HANDSHAKE: Final = timedelta(seconds=10)
_BACKLOG: Final = 128
_OUT_OF_DESCRIPTORS: Final = timedelta(seconds=1)
_KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 9}
"""Seconds, seconds, probes: Go's, of which the kubelet changes nothing (net/tcpsock.go); the kernel's own take over two hours."""

log = structlog.get_logger(__name__)


class Listener:
    """One address; `server` makes the protocol of each connection and knows those that are open."""

    def __init__(self, server: web.Server, context: Callable[[], ssl.SSLContext] | None, *, most: int) -> None:
        """Take aiohttp's server, what gives the TLS of a new connection (None: clear text), and the most connections."""
        self._server = server
        self._context = context
        self._most = most
        self._handshakes: dict[asyncio.Task[None], None] = {}
        """Oldest first."""
        self._busy: set[Any] = set()
        self._seldom = RateLimitedLog(log)

    @property
    def open(self) -> int:
        """Count the connections, those that are still in their handshake included."""
        return len(self._server.connections) + len(self._handshakes)

    @contextlib.contextmanager
    def busy(self, request: web.Request) -> Iterator[None]:
        """Mark a connection while it is answered: it does not have to make room."""
        protocol = request.protocol
        self._busy.add(protocol)
        try:
            yield
        finally:
            self._busy.discard(protocol)

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Take connections while the block runs, and give the port. Raises OSError naming the address."""
        with _bound(host, port) as listener:
            accepting = asyncio.create_task(self._accept(listener), name=f"accept {port}")
            try:
                yield listener.getsockname()[1]
            finally:
                accepting.cancel()
                for task in self._handshakes:
                    task.cancel()
                await asyncio.gather(accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                    log.warning("No connection can be taken", error=str(error))
                    await asyncio.sleep(_OUT_OF_DESCRIPTORS.total_seconds())
                continue
            _look_after(connection)
            if self.open >= self._most and not self._made_room():
                connection.close()
                continue
            task = asyncio.create_task(self._welcome(connection, peer[0]))
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _welcome(self, connection: socket.socket, peer: str) -> None:
        try:
            if self._context is None:
                await asyncio.get_running_loop().connect_accepted_socket(self._server, connection)
            else:
                async with asyncio.timeout(HANDSHAKE.total_seconds()):
                    await _shake_hands(connection, self._server(), self._context())
        except ssl.SSLCertVerificationError as error:
            self._seldom.warning("A client certificate was refused", peer=peer, error=error.verify_message)
        except OSError as error:  # an SSLError is one, too; the socket is its transport's, which closes it
            log.debug("TLS handshake failed", peer=peer, error=str(error))

    def end_all(self) -> None:
        """End all connections, those that are being answered with their answer."""
        for task in self._handshakes:
            task.cancel()
        for protocol in self._server.connections:
            if protocol in self._busy:
                protocol.close()
            elif protocol.transport is not None:
                protocol.transport.close()

    def _made_room(self) -> bool:
        """End what says nothing: a handshake where these take half of all places or more, else an idle connection."""
        if len(self._handshakes) >= self._most / 2:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            return oldest.cancel()
        for protocol in self._server.connections:  # oldest first
            transport = protocol.transport
            if protocol not in self._busy and isinstance(transport, asyncio.Transport) and not transport.is_closing():
                transport.abort()
                return True
        return False


class _Tls(SSLProtocol):
    """asyncio's TLS, but for a handshake that fails: the client is sent the alert, before the connection is closed."""

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        if handshake_exc is not None:
            self._process_outgoing()  # type: ignore[attr-defined]  # not in typeshed, and the only way to what is to be sent
        super()._on_handshake_complete(handshake_exc)


async def _shake_hands(connection: socket.socket, protocol: asyncio.BaseProtocol, context: ssl.SSLContext) -> None:
    """Begin TLS on a connection and give it to a protocol; raises OSError."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    tls = _Tls(loop, protocol, context, done, server_side=True)
    transport, _ = await loop.connect_accepted_socket(lambda: tls, connection)
    try:
        await done
    except BaseException:
        transport.abort()
        raise


def _look_after(connection: socket.socket) -> None:
    """Ask a silent client's machine whether it is still there: one that lost its power would keep a stream for hours."""
    with contextlib.suppress(OSError):  # gone by now, which the handshake will find
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(0)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"the node's API can't listen on {host}:{port}: {error.strerror}") from error
    return listener
