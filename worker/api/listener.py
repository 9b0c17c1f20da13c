"""Accepts connections up to a limit; when it is reached, the oldest idle connection is closed.

asyncio's server does not count handshakes, so clients that connect and send nothing would be unlimited. Here, a client that
keeps idle connections or unfinished handshakes open cannot lock others out.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web

from worker.api.access.rate_limited_log import RateLimitedLog
from worker.daemon.loop_restarts import restart_on_error

HANDSHAKE: Final = timedelta(seconds=10)
_BACKLOG: Final = 128
_OUT_OF_DESCRIPTORS: Final = timedelta(seconds=1)
_KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 9}
"""Seconds, seconds, probes. Go's defaults, which the kubelet keeps (net/tcpsock.go); the kernel's take over two hours."""

log = structlog.get_logger(__name__)


class Listener:
    """Listens on one address; `server` creates the protocol of each connection and tracks the open ones."""

    def __init__(self, server: web.Server, context: Callable[[], ssl.SSLContext] | None, *, most: int) -> None:
        """Take aiohttp's server, the function that returns the TLS context (None: clear text), and the connection limit."""
        self._server = server
        self._context = context
        self._most = most
        self._handshakes: dict[asyncio.Task[None], None] = {}
        """Oldest first."""
        self._busy: set[Any] = set()
        self._rate_limited = RateLimitedLog(log)

    @property
    def open(self) -> int:
        """Count the connections, including those in their handshake."""
        return len(self._server.connections) + len(self._handshakes)

    @contextlib.contextmanager
    def busy(self, request: web.Request) -> Iterator[None]:
        """Protect a connection from being closed as idle while a request is answered."""
        protocol = request.protocol
        self._busy.add(protocol)
        try:
            yield
        finally:
            self._busy.discard(protocol)

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Accept connections while the block runs; yields the port. Raises OSError naming the address."""
        with _bound(host, port) as listener:
            accepting = asyncio.create_task(
                restart_on_error(f"connections to port {port}", partial(self._accept, listener)), name=f"accept {port}"
            )
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
            try:
                _enable_keepalive(connection)
            except OSError:  # the peer has reset it already
                connection.close()
                continue
            if self.open >= self._most and not self._close_idle():
                connection.close()
                continue
            task = asyncio.create_task(self._handshake(connection, peer[0]))
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _handshake(self, connection: socket.socket, peer: str) -> None:
        try:
            if self._context is None:
                await asyncio.get_running_loop().connect_accepted_socket(self._server, connection)
            else:
                async with asyncio.timeout(HANDSHAKE.total_seconds()):
                    await _start_tls(connection, self._server(), self._context())
        except ssl.SSLCertVerificationError as error:
            self._rate_limited.warning("A client certificate was refused", peer=peer, error=error.verify_message)
        except OSError as error:  # also for an SSLError; the transport closes the socket
            log.debug("TLS handshake failed", peer=peer, error=str(error))

    def close_all(self) -> None:
        """Close all connections; those with a request in progress after their answer."""
        for task in self._handshakes:
            task.cancel()
        for protocol in self._server.connections:
            if protocol in self._busy:
                protocol.close()
            elif protocol.transport is not None:
                protocol.transport.close()

    def _close_idle(self) -> bool:
        """Close the oldest handshake if half of all connections are handshakes, else an idle connection.

        Returns False if there is none.
        """
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
    """asyncio's TLS, except that a failed handshake sends its alert before the connection is closed."""

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        if handshake_exc is not None:
            self._process_outgoing()  # type: ignore[attr-defined]  # not in typeshed, and the only way to what is to be sent
        super()._on_handshake_complete(handshake_exc)


async def _start_tls(connection: socket.socket, protocol: asyncio.BaseProtocol, context: ssl.SSLContext) -> None:
    """Start TLS on a connection and hand it to a protocol; raises OSError."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    tls = _Tls(loop, protocol, context, done, server_side=True)
    transport, _ = await loop.connect_accepted_socket(lambda: tls, connection)
    try:
        await done
    except BaseException:
        transport.abort()
        raise


def _enable_keepalive(connection: socket.socket) -> None:
    """Enable TCP keepalive: the stream of a client that lost its power would otherwise stay open for hours."""
    with contextlib.suppress(OSError):  # already closed; the handshake will notice
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
