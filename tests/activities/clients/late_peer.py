"""A relay before a gRPC server that is slow to greet: it takes a connection at once and passes nothing on for a while."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

LATE: Final = 1.0
"""Seconds. Longer than the longest pause between two attempts to connect of any client under test."""


@contextlib.asynccontextmanager
async def late_peer(peer: Path) -> AsyncIterator[tuple[Path, int]]:
    """Listen beside a server's socket; yields the relay's socket and its port on loopback."""
    connections: set[asyncio.Task[None]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        await asyncio.sleep(LATE)  # what the test is about: the client has nothing to wait for but time
        peer_reader, peer_writer = await asyncio.open_unix_connection(peer)
        with contextlib.suppress(ConnectionError):  # the client has given up
            await asyncio.gather(_copy(reader, peer_writer), _copy(peer_reader, writer))

    socket = peer.with_name("late.sock")
    on_unix = await asyncio.start_unix_server(relay, socket)
    on_loopback = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with on_unix, on_loopback:
        yield socket, on_loopback.sockets[0].getsockname()[1]
        for one in connections:
            one.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(64 * 1024):
        writer.write(some)
        await writer.drain()
    writer.close()
