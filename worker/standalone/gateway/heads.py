"""Heads of HTTP/1.1 requests: read within bounds, parsed strictly, written anew.

Pure but for `read_head`. Who sends them may be anybody on the machine.
"""

import re
import socket
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self

LONGEST_HEAD: Final = 32 * 1024
END: Final = b"\r\n\r\n"
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REQUEST_LINE: Final = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]")
_OF_A_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization"})


class BadHead(Exception):
    """It is no head of a request, too long, or too slow."""


@dataclass(frozen=True, slots=True)
class Head:
    """One request without its body."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """Names in lower case."""

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Parse everything up to the empty line; raises BadHead."""
        first, *lines = text.split(b"\r\n")
        request = _REQUEST_LINE.fullmatch(first)
        if request is None:
            raise BadHead("no request line of HTTP/1.1")
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(name) or b"\n" in value or b"\r" in value or b"\0" in value:
                raise BadHead("a line that is no header")
            headers.append((name.lower(), value.strip()))
        return cls(request[1], request[2], tuple(headers))

    def header(self, name: bytes) -> bytes:
        """Return the only value of a header; empty if there is none, or more than one."""
        values = [value for one, value in self.headers if one == name]
        return values[0] if len(values) == 1 else b""

    def for_one_exchange(self, target: bytes, without: frozenset[bytes] = frozenset()) -> bytes:
        """Write it for a server that closes the connection after its answer, so that no second request follows."""
        dropped = _OF_A_CONNECTION | without
        lines = [b"%s %s HTTP/1.1" % (self.method, target)]
        lines += [b"%s: %s" % (name, value) for name, value in self.headers if name not in dropped]
        return b"\r\n".join([*lines, b"connection: close"]) + END


def read_head(caller: socket.socket, within: float) -> tuple[bytes, bytes]:
    """Read a head, and what came with it; raises BadHead if it is too long, or not there after `within` seconds."""
    until, got = time.monotonic() + within, bytearray()
    while (end := got.find(END, max(0, len(got) - len(END) - BLOCK))) < 0:
        left = until - time.monotonic()
        if len(got) > LONGEST_HEAD or left <= 0:
            raise BadHead("too long" if left > 0 else "too slow")
        caller.settimeout(left)
        try:
            block = caller.recv(BLOCK)
        except TimeoutError:
            raise BadHead("too slow") from None
        if not block:
            raise BadHead("cut off")
        got += block
    caller.settimeout(None)
    return bytes(got[:end]), bytes(got[end + len(END) :])


BLOCK: Final = 4096


def answer(status: HTTPStatus, text: str, *headers: str) -> bytes:
    """Write a whole response, after which the connection is closed."""
    body = text.encode()
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Content-Type: text/plain; charset=utf-8", *headers]
    lines += [f"Content-Length: {len(body)}", "Cache-Control: no-store", "Connection: close"]
    return "\r\n".join(lines).encode() + END + body
