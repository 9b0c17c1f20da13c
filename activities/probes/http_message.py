"""Reads an HTTP/1 response as far as a probe needs it: status, redirect, and the first 10 KiB of the body.

As lenient as Go's client: lines may end without a carriage return.
"""

import re
from dataclasses import dataclass
from typing import Final

from activities.probes.http_stream import Stream
from activities.probes.outcome import MAX_OUTPUT

_MAX_HEAD: Final = 1024 * 1024
_CHUNK: Final = 16 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/\d\.\d (\d{3})(?: |$)")
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_FINAL: Final = 200
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


async def read_head(reader: Stream) -> Head:
    """Read until the head is complete, skipping interim responses; raises BadResponse."""
    read = b""
    while True:
        while (end := _BLANK_LINE.search(read)) is None:
            if len(read) > _MAX_HEAD:
                raise BadResponse(f"server response headers exceeded {_MAX_HEAD} bytes; aborted")
            more = await reader.read(_CHUNK)
            if not more:
                raise BadResponse("EOF" if not read else "unexpected EOF")
            read += more
        head = _parsed(read[: end.start()], read[end.end() :])
        if head.status >= _FINAL:
            return head
        read = head.rest


async def read_body(head: Head, reader: Stream) -> bytes:
    """Read at most 10 KiB of the body; raises OSError if it breaks off."""
    body = head.rest
    if head.status in _WITHOUT_BODY:
        return b""
    enough = MAX_OUTPUT if head.length is None else min(head.length, MAX_OUTPUT)
    while len(body) < enough and not (head.chunked and body.endswith(_LAST_CHUNK)):
        more = await reader.read(_CHUNK)
        if not more:
            if head.length is not None or head.chunked:
                raise ConnectionError("unexpected EOF")
            break
        body += more
    return body[:MAX_OUTPUT]


def _parsed(head: bytes, rest: bytes) -> Head:
    first, *lines = head.splitlines()
    found = _STATUS_LINE.match(first)
    if found is None:
        raise BadResponse(f'malformed HTTP response "{first[:80].decode(errors="replace")}"')
    fields: dict[bytes, str] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), value.strip().decode("latin-1"))
    length = fields.get(b"content-length", "")
    return Head(
        status=int(found[1]),
        location=fields.get(b"location", ""),
        length=int(length) if length.isdecimal() else None,
        chunked="chunked" in fields.get(b"transfer-encoding", "").lower(),
        rest=rest,
    )
