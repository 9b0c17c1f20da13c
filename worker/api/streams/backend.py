"""A connection to the runtime's streaming server.

CRI's Exec, Attach and PortForward return a URL on loopback with a single-use token. It is used here only and never shown. Of
the client's headers only those that select a protocol are forwarded: no credentials, no host (apimachinery/pkg/util/proxy
upgradeaware.go forwards them all).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from yarl import URL

FORWARDED_HEADERS: Final = (
    "Upgrade",
    "X-Stream-Protocol-Version",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Version",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Extensions",
    "Origin",
    "User-Agent",
)
"""The headers that select a protocol, and the client's name."""
ANSWER_SECONDS: Final = 30.0
"""The runtime answers before it starts the command; containerd does so at once."""
SWITCHING_PROTOCOLS: Final = 101
_LONGEST_HEAD: Final = 64 * 1024
_LONGEST_BODY: Final = 64 * 1024
_WAITING: Final = 64 * 1024
"""Buffer limit of a stream in bytes."""
_HEAD_END: Final = b"\r\n\r\n"


class BackendFailed(Exception):
    """The runtime's streaming server is unreachable, or does not answer in HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The streaming server's response; `rest` is what followed its head."""

    status: int
    headers: tuple[tuple[str, str], ...]
    head: bytes
    rest: bytes

    def header(self, name: str) -> str:
        """Return a header's first value, or ""."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


@dataclass(slots=True)
class _Answering(asyncio.Protocol):
    """Collects the response head, then pauses the connection until `take_over`."""

    answered: "asyncio.Future[bytes]"
    received: bytearray = field(default_factory=bytearray)
    transport: asyncio.Transport | None = None
    lost: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.answered.done():
            return
        if _HEAD_END in self.received or len(self.received) > _LONGEST_HEAD:
            assert self.transport is not None
            self.transport.pause_reading()
            self.answered.set_result(bytes(self.received))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self.answered.done():
            self.answered.set_exception(BackendFailed(f"it closed the connection: {exc or 'without an answer'}"))


@dataclass(slots=True)
class Backend:
    """A connection whose response head has arrived; a context manager that closes it."""

    transport: asyncio.Transport
    answer: Answer
    _first: _Answering

    @classmethod
    async def open(cls, url: str, method: str, headers: Iterable[tuple[str, str]]) -> Self:
        """Request an upgrade; raises BackendFailed."""
        loop = asyncio.get_running_loop()
        target = URL(url)
        host, port = target.host, target.port
        if host is None or port is None:
            raise BackendFailed("it has no address that could be dialed")
        answering = _Answering(loop.create_future())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                transport, _ = await loop.create_connection(
                    lambda: answering, host, port, ssl=target.scheme == "https" or None
                )
                try:
                    transport.write(_request(target, method, headers))
                    received = await answering.answered
                except BaseException:
                    transport.abort()
                    raise
        except (OSError, TimeoutError) as error:
            raise BackendFailed(
                f"error dialing backend: {error or 'no answer in time'}"
            ) from None  # without its text: that contains the URL
        try:
            return cls(transport, _answer(received), answering)
        except BackendFailed:
            transport.abort()
            raise

    def take_over(self, protocol: asyncio.Protocol) -> None:
        """Hand the connection to a protocol, starting with the first byte after the head."""
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if self.answer.rest:
            protocol.data_received(self.answer.rest)
        if self._first.lost:
            protocol.connection_lost(None)
        else:
            self.transport.resume_reading()

    def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the connection as reader and writer, starting with the first byte after the head."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_WAITING, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        self.take_over(protocol)
        return reader, asyncio.StreamWriter(self.transport, protocol, reader, loop)

    async def refusal(self) -> bytes:
        """Read the body of a response that is not an upgrade; closes the connection."""
        try:
            length = int(self.answer.header("Content-Length") or 0)
        except ValueError:
            length = 0
        body = _Body(min(length, _LONGEST_BODY))
        self.take_over(body)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await body.whole
        except TimeoutError:
            return b""
        finally:
            self.transport.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.abort()  # a connection that was handed over is closed by now


class _Body(asyncio.Protocol):
    """Collects a number of bytes, or what arrives until the end."""

    def __init__(self, length: int) -> None:
        self._length, self._received = length, b""
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._look()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._look(ended=True)

    def _look(self, *, ended: bool = False) -> None:
        if (ended or len(self._received) >= self._length) and not self.whole.done():
            self.whole.set_result(self._received[: self._length])


def _request(url: URL, method: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the request's head; aiohttp has rejected line breaks in the client's headers."""
    lines = [f"{method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.authority}", "Connection: Upgrade"]
    lines += [f"{name}: {value}" for name, value in headers]
    if method == "POST":
        lines.append("Content-Length: 0")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def _answer(received: bytes) -> Answer:
    """Parse the response head; raises BackendFailed."""
    head, end, rest = received.partition(_HEAD_END)
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not end or len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise BackendFailed("it does not answer in HTTP")
    headers = tuple((name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
    return Answer(int(words[1]), headers, head + end, rest)
