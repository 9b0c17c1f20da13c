"""Is a client's WebSocket v5 translated to SPDY streams, and does the client learn how the command ended, in every case?"""

import asyncio
import contextlib
import json
import struct
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web

from tests.cluster.certificates import Signed
from tests.patience import PATIENCE
from tests.waiting import until
from tests.worker.api.streams.streaming_ends import SWITCHED, Served, StreamingServer
from worker.api.streams import spdy
from worker.api.streams.options import StreamOptions
from worker.api.streams.translation import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    V5,
    is_translated,
    translate_streams,
)

ALL = StreamOptions(stdin=True, stdout=True, stderr=True, tty=False)
TERMINAL = StreamOptions(stdin=True, stdout=True, stderr=False, tty=True)
SUCCESS = b'{"metadata":{},"status":"Success"}'
SYN_REPLY = struct.pack(">IIII", 0x80030002, 0x01000008, 3, 0)
RST = struct.pack(">IIII", 0x80030003, 8, 5, 1)
PING = struct.pack(">III", 0x80030006, 4, 77)
TOO_LONG = struct.pack(">II", 0x80030002, 0x00FFFFFF)


@dataclass
class Runtime:
    """Speaks SPDY like the runtime: sends what a test sets, and records what it receives."""

    says: Sequence[bytes]
    heard: list[tuple[spdy.Head, bytes]] = field(default_factory=list)
    stays: bool = True

    async def script(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection."""
        writer.write(SWITCHED + b"".join(self.says))
        if not self.stays:
            writer.write_eof()
        while True:
            head = spdy.Head.parse(await reader.readexactly(spdy.HEAD_SIZE))
            self.heard.append((head, await reader.readexactly(head.length)))

    def opened(self) -> dict[int, str]:
        """Return the streams that were opened, by number."""
        unpacked, found = zlib.decompressobj(), {}
        for head, body in self.heard:
            if head.control == spdy.Control.SYN_STREAM:
                block = unpacked.decompress(body[10:])
                assert block.startswith(struct.pack(">II", 1, 10) + b"streamtype")
                found[spdy.stream_of(body)] = block[22:].decode()
        return found


@contextlib.asynccontextmanager
async def speaking_to(
    runtime: Runtime, certificate: Signed, wanted: StreamOptions = ALL, idle: timedelta = timedelta()
) -> "AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]":
    """Open a client's v5 WebSocket to a runtime."""
    async with StreamingServer(runtime.script).serving() as server:

        async def handler(request: web.Request) -> web.StreamResponse:
            assert is_translated(request)
            return await translate_streams(request, server.url, wanted, idle)

        async with Served(certificate).serving(handler) as api, aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{api.port}/"
            async with session.ws_connect(url, ssl=api.client_context(), protocols=("v4.channel.k8s.io", V5)) as socket:
                assert socket.protocol == V5
                yield socket
            await until(lambda: not api.connections, "the connection is closed")


async def heard(socket: "aiohttp.ClientWebSocketResponse[bool]") -> list[bytes]:
    """Read all messages."""
    async with asyncio.timeout(PATIENCE):
        return [message.data async for message in socket]


def said(stream: int, data: bytes, *, last: bool = False) -> bytes:
    """Encode what the runtime sends on a stream."""
    return spdy.data_frame(stream, data, last=last)


@pytest.mark.parametrize(
    ("wanted", "streams", "first"),
    [
        pytest.param(ALL, {1: "error", 3: "stdin", 5: "stdout", 7: "stderr"}, STDOUT, id="all"),
        pytest.param(TERMINAL, {1: "error", 3: "stdin", 5: "stdout", 7: "resize"}, STDOUT, id="a-terminal"),
        pytest.param(StreamOptions(True, False, False, False), {1: "error", 3: "stdin"}, ERROR, id="stdin-alone"),
        pytest.param(StreamOptions(False, False, True, False), {1: "error", 3: "stderr"}, STDERR, id="stderr-alone"),
    ],
)
async def test_the_streams_that_are_wanted_are_opened(
    node_certificate: Signed, wanted: StreamOptions, streams: dict[int, str], first: int
) -> None:
    """The client gets an empty message on the first stream that it reads."""
    runtime = Runtime([])
    async with speaking_to(runtime, node_certificate, wanted) as socket:
        assert await socket.receive_bytes() == bytes([first])
        await until(lambda: runtime.opened() == streams, str(streams))


async def test_what_the_client_sends_reaches_its_stream(node_certificate: Signed) -> None:
    """Stdin until it is closed, window sizes, and nothing on other channels."""
    runtime = Runtime([PING])
    async with speaking_to(runtime, node_certificate, TERMINAL) as socket:
        for message in (
            bytes([STDIN]) + b"one",
            bytes([STDOUT]) + b"no",
            bytes([9]) + b"no",
            bytes([RESIZE]) + b'{"Width":1}',
            bytes([CLOSE, STDOUT]),
            bytes([CLOSE, STDIN]),
            bytes([STDIN]) + b"too late",
            bytes([RESIZE]) + b"end",
        ):
            await socket.send_bytes(message)
        await until(lambda: bool(runtime.heard) and runtime.heard[-1][1] == b"end", "all is heard")
    data = [(head.stream, head.flags, body) for head, body in runtime.heard if head.control is None]
    assert data == [(3, 0, b"one"), (7, 0, b'{"Width":1}'), (3, spdy.FIN, b""), (7, 0, b"end")]
    assert [body for head, body in runtime.heard if head.control == spdy.Control.PING] == [struct.pack(">I", 77)]


END = (said(5, b"", last=True), said(7, b"", last=True), said(1, SUCCESS, last=True))


@pytest.mark.parametrize(
    ("says", "out", "status"),
    [
        pytest.param((said(5, b"out"), *END), b"out", "Success", id="success"),
        pytest.param((SYN_REPLY, said(5, b"x" * 100_000), *END), b"x" * 100_000, "Success", id="a-long-frame"),
        pytest.param((END[2], said(5, b"late"), *END[:2]), b"late", "Success", id="the-status-first"),
        pytest.param((said(5, b"out"), RST, *END[1:]), b"out", "Success", id="a-stream-that-is-reset"),
        pytest.param((said(9, b"whose?"), said(3, b"stdin?"), *END), b"", "Success", id="a-stream-that-is-nobodys"),
        pytest.param((said(5, b"out"), *END[:1]), b"out", "Failure", id="no-status"),
        pytest.param((said(1, SUCCESS), said(5, b"o")), b"o", "Success", id="a-status-but-no-end"),
        pytest.param((said(5, b"out")[:6],), b"", "Failure", id="half-a-frame"),
        pytest.param((TOO_LONG,), b"", "Failure", id="a-control-frame-that-is-too-long"),
        pytest.param((), b"", "Failure", id="nothing"),
    ],
)
async def test_the_client_is_told_how_it_ended(
    node_certificate: Signed, says: Sequence[bytes], out: bytes, status: str
) -> None:
    """With the runtime's status, or with one of ours if it sent none."""
    async with speaking_to(Runtime(says, stays=False), node_certificate) as socket:
        *messages, last = await heard(socket)
    assert b"".join(one[1:] for one in messages if one[0] == STDOUT) == out
    assert last[0] == ERROR
    assert json.loads(last[1:])["status"] == status


async def test_an_idle_client_is_let_go(node_certificate: Signed) -> None:
    """StreamingConnectionIdleTimeout."""
    async with speaking_to(Runtime([]), node_certificate, idle=timedelta(seconds=0.3)) as socket:
        assert await heard(socket) == [bytes([STDOUT])]


async def test_a_client_that_speaks_text_is_let_go(node_certificate: Signed) -> None:
    """Channels are binary."""
    async with speaking_to(Runtime([]), node_certificate) as socket:
        await socket.send_str("hello")
        assert await heard(socket) == [bytes([STDOUT])]
