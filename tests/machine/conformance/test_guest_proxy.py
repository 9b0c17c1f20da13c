"""Does the proxy of a guest connect an API server to what it names, in both directions and to the end?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from tests.free_ports import free_port
from tests.machine.conformance import guest_proxy
from tests.machine.conformance.way_in import passed_on


@contextlib.asynccontextmanager
async def proxy() -> AsyncIterator[int]:
    """Serve it on loopback, and yield its port."""
    port = free_port()
    server = await asyncio.start_server(guest_proxy.connect, "127.0.0.1", port)
    async with server:
        yield port


async def ask(port: int, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """Connect as the API server does; returns the proxy's answer, too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return reader, writer, await reader.readuntil(b"\r\n\r\n")


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer when the other side has ended."""
    writer.write(b"said " + await reader.read())
    await writer.drain()
    writer.close()


async def test_it_connects_to_the_end() -> None:
    """What one side has said is there, and its end as well, while the other still speaks."""
    port = free_port()
    async with await asyncio.start_server(echo, "127.0.0.1", port), proxy() as at:
        reader, writer, answer = await ask(at, f"127.0.0.1:{port}")
        assert b" 200 " in answer
        writer.write(b"this")
        writer.write_eof()
        assert await reader.read() == b"said this"
        writer.close()


async def test_what_does_not_answer_is_told() -> None:
    """The API server then tells its client."""
    async with proxy() as at:
        _, writer, answer = await ask(at, f"127.0.0.1:{free_port()}")
        assert b" 502 " in answer
        writer.close()


async def test_rubbish_ends_one_connection() -> None:
    """The next one is served."""
    async with proxy() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at)
        writer.write(b"rubbish\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        _, writer, answer = await ask(at, f"127.0.0.1:{at}")
        assert b" 200 " in answer
        writer.close()


async def test_a_socket_leads_to_the_proxy(tmp_path: Path) -> None:
    """With the ends of both sides; afterwards nothing listens."""
    port, path = free_port(), tmp_path / "way-in"
    async with await asyncio.start_server(echo, "127.0.0.1", port), proxy() as at:
        with passed_on(path, at):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"this")
            writer.write_eof()
            assert await reader.read() == b"said this"
            writer.close()
    assert not path.exists()
