"""The connection of an HTTP probe: a bare socket, or asyncio's stream for TLS.

A bare socket costs half as much as a stream, and most probes need no more.
"""

import asyncio
import socket
from typing import Protocol


class Stream(Protocol):
    """A connection to read from and write to."""

    async def read(self, most: int, /) -> bytes:
        """Read what has arrived, at most so many bytes; empty at the end. Raises OSError."""

    async def write(self, data: bytes, /) -> None:
        """Write all of it; raises OSError."""

    def close(self) -> None:
        """Close it at once."""


class PlainStream:
    """A connected, non-blocking socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._loop = connection, asyncio.get_running_loop()

    async def read(self, most: int) -> bytes:
        """Read what has arrived."""
        return await self._loop.sock_recv(self._connection, most)

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        await self._loop.sock_sendall(self._connection, data)

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


class SecureStream:
    """A TLS connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self, most: int) -> bytes:
        """Read what has arrived."""
        return await self._reader.read(most)

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """Close without TLS's shutdown, which would wait for the server."""
        self._writer.transport.abort()
