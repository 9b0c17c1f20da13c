"""What the tests of probe handlers ask: servers on loopback that answer as a test says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

from activities.probes.outcome import Target

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CLOSED = 1  # nobody listens on tcpmux


def target(port: int = 0, **container: Any) -> Target:
    """Ask at loopback."""
    named = {"ports": [{"name": "web", "containerPort": port}]} if port else {}
    return Target({"name": "web", **named, **container}, "web-0", "127.0.0.1", Mock())


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """Run a server on a free port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def answering(*answers: bytes, asked: list[bytes] | None = None) -> Serve:
    """Answer one request after the other with these, the last one for ever."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if asked is not None:
            asked.append(request)
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take the connection and say nothing until it is closed."""
    await reader.read()
    writer.close()
