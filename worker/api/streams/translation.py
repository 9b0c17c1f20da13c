"""Translates remotecommand v5 over WebSocket, on the client's side, to v4 over SPDY, on the runtime's.

Used by `exec` and `attach` for a direct client that offers v5, the version that can close stdin; the runtime's WebSocket server
only has v4 (apiserver/pkg/util/proxy streamtranslator.go, behind ExtendWebSocketsToKubelet). The first byte of a message is its
channel. The runtime's final Status, in JSON, is passed on unchanged.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from aiohttp import WSMsgType, hdrs, web

from worker.api.streams import spdy
from worker.api.streams.backend import SWITCHING_PROTOCOLS, Backend
from worker.api.streams.options import StreamOptions
from worker.api.streams.tunnel import PROTOCOL_VERSION, SPDY, until_one_ends
from worker.api.streams.upgrade_proxy import (
    accept_websocket,
    backend_refusal,
    connect_backend,
    offered_protocols,
    require_upgrade,
)

V5: Final = "v5.channel.k8s.io"
_V4: Final = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE: Final = 255
_NAMES: Final = {ERROR: "error", STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", RESIZE: "resize"}
"""The stream types that the runtime knows, in the order in which streams are opened."""
_PIECE: Final = 32 * 1024
_LONGEST_STATUS: Final = 64 * 1024


def is_translated(request: web.Request) -> bool:
    """Report whether a client offers v5 over a WebSocket."""
    return V5 in offered_protocols(request)


async def translate_streams(
    request: web.Request, url: str, wanted: StreamOptions, idle: timedelta
) -> web.StreamResponse:
    """Connect a command's streams to a WebSocket until either side ends; raises Refused."""
    require_upgrade(request)
    with await connect_backend(url, "POST", [(hdrs.UPGRADE, SPDY), (PROTOCOL_VERSION, _V4)]) as backend:
        if backend.answer.status != SWITCHING_PROTOCOLS:
            return await backend_refusal(backend)
        socket = await accept_websocket(request, V5)
        translator = _Translator(socket, wanted, backend)
        await translator.open()
        await until_one_ends(idle, translator.up, translator.down)
        await socket.close()
    return socket


class _StreamsEnded(Exception):
    """The runtime has closed the connection, or does not speak SPDY on it."""


@dataclass(slots=True)
class _Translator:
    """One client and one command."""

    socket: web.WebSocketResponse
    wanted: StreamOptions
    backend: Backend
    streams: dict[int, int] = field(default_factory=dict)
    """Channel -> SPDY stream."""
    over: set[int] = field(default_factory=set)
    """The channels that the runtime has closed."""
    status: bytes = b""
    _reader: asyncio.StreamReader = field(init=False)
    _writer: asyncio.StreamWriter = field(init=False)

    def __post_init__(self) -> None:
        self._reader, self._writer = self.backend.streams()

    async def open(self) -> None:
        """Open the requested streams, and tell the client that they are open."""
        wanted = {
            ERROR: True,
            STDIN: self.wanted.stdin,
            STDOUT: self.wanted.stdout,
            STDERR: self.wanted.stderr,
            RESIZE: self.wanted.tty,
        }
        opening = spdy.Opening()
        for channel, name in _NAMES.items():
            if wanted[channel]:
                self.streams[channel] = 2 * len(self.streams) + 1
                self._writer.write(opening.syn_stream(self.streams[channel], {"streamtype": name}))
        first = next((one for one in (STDOUT, STDERR) if one in self.streams), ERROR)
        await self.socket.send_bytes(bytes([first]))

    async def up(self, passed: Callable[[], None]) -> None:
        """Copy what the client sends, until it disconnects or violates the protocol."""
        closed = False
        async for message in self.socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                return
            passed()
            channel, data = message.data[0], message.data[1:]
            if channel == CLOSE and data[:1] == bytes([STDIN]) and STDIN in self.streams:
                closed = True
                self._writer.write(spdy.data_frame(self.streams[STDIN], b"", last=True))
            elif channel in {STDIN, RESIZE} and channel in self.streams and not (closed and channel == STDIN):
                self._writer.write(spdy.data_frame(self.streams[channel], data))
            with suppress(ConnectionError):  # what the runtime sent before it closed is still to be delivered
                await self._writer.drain()

    async def down(self, passed: Callable[[], None]) -> None:
        """Copy what the runtime sends, and its final Status when all streams have ended."""
        shown = {ERROR, STDOUT, STDERR} & self.streams.keys()
        try:
            while not shown <= self.over:
                await self._frame()
                passed()
        except (_StreamsEnded, asyncio.IncompleteReadError, ConnectionError):
            pass
        await self.socket.send_bytes(bytes([ERROR]) + (self.status or _cut_off()))

    async def _frame(self) -> None:
        head = spdy.Head.parse(await self._reader.readexactly(spdy.HEAD_SIZE))
        if head.control is None:
            await self._data(head)
            return
        if head.length > spdy.LARGEST_CONTROL:
            raise _StreamsEnded
        body = await self._reader.readexactly(head.length)
        if head.control == spdy.Control.PING:
            self._writer.write(spdy.ping(body))
        elif head.control == spdy.Control.RST_STREAM or (
            head.control == spdy.Control.SYN_REPLY and head.flags & spdy.FIN
        ):
            self._ended(spdy.stream_of(body))

    async def _data(self, head: spdy.Head) -> None:
        """Copy a frame in pieces: the runtime chooses its length, up to 16 MiB."""
        channel = next((one for one, stream in self.streams.items() if stream == head.stream), None)
        left = head.length
        while left:
            piece = await self._reader.readexactly(min(left, _PIECE))
            left -= len(piece)
            if channel in {STDOUT, STDERR}:
                await self.socket.send_bytes(bytes([channel]) + piece)
            elif channel == ERROR and len(self.status) < _LONGEST_STATUS:
                self.status += piece
        if head.flags & spdy.FIN:
            self._ended(head.stream)

    def _ended(self, stream: int) -> None:
        self.over.update(one for one, number in self.streams.items() if number == stream)


def _cut_off() -> bytes:
    """Return the Status of a command whose result is unknown."""
    sentence = "Internal error occurred: the runtime ended the streams without a status"
    return json.dumps(
        {"metadata": {}, "status": "Failure", "message": sentence, "reason": "InternalError", "code": 500}
    ).encode()
