"""Reads an HTTP/1 response as far as a probe needs it: status, redirect, and the first 10 KiB of the body.

As lenient as Go's client: lines may end without a carriage return. Each byte is looked at once, however slowly it
arrives, and of the fields only those are kept that are needed. The bytes of all heads together are limited by the
stream.
"""

import re
from dataclasses import dataclass
from typing import Final

from activities.probes.http_stream import Stream
from activities.probes.outcome import MAX_OUTPUT

_STATUS_LINE: Final = re.compile(rb"HTTP/\d\.\d (\d{3})(?: |$)")
_MOST_INTERIM: Final = 5
"""1xx responses before the final one. Go's client had this limit until 1.24, and has only one of bytes since then."""
_INTERIM: Final = range(100, 200)
_SWITCHING_PROTOCOLS: Final = 101  # a final answer, as for Go's client
_NEEDED: Final = frozenset({b"location", b"content-length", b"transfer-encoding"})
_LENGTH: Final = re.compile(r"\d{1,18}", re.ASCII)
_WITHOUT_BODY: Final = (204, 304)
_LAST_CHUNK: Final = b"0\r\n\r\n"


class BadResponse(Exception):
    """The bytes received are not a response to the request; the message says why."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a response, and the bytes read after it."""

    status: int
    location: str = ""
    length: int | None = None
    chunked: bool = False
    rest: bytes = b""

    @property
    def is_interim(self) -> bool:
        """Whether the final response follows."""
        return self.status in _INTERIM and self.status != _SWITCHING_PROTOCOLS


async def read_head(stream: Stream) -> Head:
    """Read until the head is complete, skipping interim responses; raises BadResponse."""
    rest = b""
    for _ in range(_MOST_INTERIM + 1):
        head = await _read_one(stream, rest)
        if not head.is_interim:
            return head
        rest = head.rest
    raise BadResponse("too many 1xx informational responses")


async def read_body(head: Head, stream: Stream) -> bytes:
    """Read at most 10 KiB of the body; raises OSError if it breaks off."""
    body = head.rest
    if head.status in _WITHOUT_BODY:
        return b""
    enough = MAX_OUTPUT if head.length is None else min(head.length, MAX_OUTPUT)
    while len(body) < enough and not (head.chunked and body.endswith(_LAST_CHUNK)):
        more = await stream.read()
        if not more:
            if head.length is not None or head.chunked:
                raise ConnectionError("unexpected EOF")
            break
        body += more
    return body[:MAX_OUTPUT]


async def _read_one(stream: Stream, data: bytes) -> Head:
    """Read one head that begins with `data`."""
    lines = _HeadLines()
    while (rest := lines.take(data)) is None:
        data = await stream.read()
        if not data:
            raise BadResponse("unexpected EOF" if lines.has_begun else "EOF")
    return lines.head(rest)


class _HeadLines:
    """The lines of a head, as they arrive."""

    def __init__(self) -> None:
        self._line = bytearray()
        """The beginning of the line whose end has not arrived."""
        self._status = 0
        self._fields: dict[bytes, str] = {}
        self.has_begun = False

    def take(self, data: bytes) -> bytes | None:
        """Take what has arrived; returns the bytes after the head, None while it is incomplete. Raises BadResponse."""
        self.has_begun = self.has_begun or bool(data)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._line += data[start:end]
            line = bytes(self._line).removesuffix(b"\r")
            self._line.clear()
            start = end + 1
            if not self._status:
                self._status = _status(line)
            elif line:
                self._take_field(line)
            else:
                return data[start:]
        self._line += data[start:]
        return None

    def head(self, rest: bytes) -> Head:
        """Return the complete head."""
        length = self._fields.get(b"content-length", "")
        return Head(
            status=self._status,
            location=self._fields.get(b"location", ""),
            length=int(length) if _LENGTH.fullmatch(length) else None,
            chunked="chunked" in self._fields.get(b"transfer-encoding", "").lower(),
            rest=rest,
        )

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if (name := name.strip().lower()) in _NEEDED:
            self._fields.setdefault(name, value.strip().decode("latin-1"))


def _status(line: bytes) -> int:
    found = _STATUS_LINE.match(line)
    if found is None:
        raise BadResponse(f'malformed HTTP response "{line[:80].decode(errors="replace")}"')
    return int(found[1])
