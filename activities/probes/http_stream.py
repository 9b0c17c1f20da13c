"""The connections of an HTTP exchange: a bare socket, and TLS over it.

A bare socket costs half as much as a stream of asyncio, and most probes need no more. The server is in a pod, so it may
send without end and faster than it is read. So all connections of an exchange share one budget of bytes, which also
counts those that TLS keeps for itself, and the event loop has a turn before each further read, whether or not the bytes
are there already: the exchange's time limit is seen there.
"""

import asyncio
import socket
import ssl
from typing import Final, Protocol

MOST_READ: Final = 1024 * 1024
"""Bytes of one exchange, redirects included. Go's client reads ten times as much, for each response."""
_CHUNK: Final = 4 * 1024
"""Bytes of one read. Two thousand header fields of a letter each fit into it, which are parsed in a few milliseconds."""


class TooMuchRead(ConnectionError):
    """The server has sent more than an exchange may read."""

    def __init__(self) -> None:
        super().__init__(f"server response headers exceeded {MOST_READ} bytes; aborted")


class ReadBudget:
    """What one exchange may still read."""

    def __init__(self) -> None:
        self._left, self._has_read = MOST_READ, False

    async def turn(self) -> None:
        """Let the event loop run before another read; the first one needs no turn, so most probes take none."""
        if self._has_read:
            await asyncio.sleep(0)
        self._has_read = True

    def spend(self, count: int) -> None:
        """Count bytes that were read; raises TooMuchRead."""
        self._left -= count
        if self._left < 0:
            raise TooMuchRead


class Stream(Protocol):
    """A connection to read from and write to."""

    async def read(self) -> bytes:
        """Read what has arrived, at most 4 KiB; empty at the end. Raises OSError."""

    async def write(self, data: bytes, /) -> None:
        """Write all of it; raises OSError."""

    def close(self) -> None:
        """Close it at once."""


class PlainStream:
    """A connected, non-blocking socket."""

    def __init__(self, connection: socket.socket, budget: ReadBudget) -> None:
        self._connection, self._budget, self._loop = connection, budget, asyncio.get_running_loop()

    async def read(self) -> bytes:
        """Read what has arrived."""
        await self._budget.turn()
        data = await self._loop.sock_recv(self._connection, _CHUNK)
        self._budget.spend(len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        await self._loop.sock_sendall(self._connection, data)

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


class SecureStream:
    """A TLS connection.

    asyncio's own reads up to 256 KiB at once, and shows neither how much nor how often: a server that only renews keys or
    tickets would never be seen. The handshake is computed in threads, because the server chooses how costly it is.
    """

    def __init__(self, plain: PlainStream, context: ssl.SSLContext, host: str) -> None:
        self._plain = plain
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)

    async def handshake(self) -> None:
        """Agree on keys; raises OSError."""
        while True:
            try:
                await asyncio.to_thread(self._tls.do_handshake)
                break
            except ssl.SSLWantReadError:
                await self._exchange()
        await self._send()

    async def read(self) -> bytes:
        """Read what has arrived."""
        while True:
            try:
                return self._tls.read(_CHUNK)
            except ssl.SSLWantReadError:
                await self._exchange()
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # many servers close without TLS's farewell
                return b""

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        self._tls.write(data)
        await self._send()

    def close(self) -> None:
        """Close without TLS's shutdown, which would wait for the server."""
        self._plain.close()

    async def _exchange(self) -> None:
        """Send what TLS has to send, and read what it waits for."""
        await self._send()
        data = await self._plain.read()
        if data:
            self._received.write(data)
        else:
            self._received.write_eof()

    async def _send(self) -> None:
        if self._to_send.pending:
            await self._plain.write(self._to_send.read())
