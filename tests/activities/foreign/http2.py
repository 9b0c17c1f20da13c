"""An HTTP/2 server that answers each gRPC call with bytes of a test, whatever they are.

A real gRPC server would not send a message that is too long, or one that ends nowhere.
"""

import socket
from collections.abc import Callable
from itertools import repeat

DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
_PREFACE = 24
_INITIAL_WINDOW = 4
_LARGEST_FRAME = 16384


def frame(kind: int, flags: int, stream: int, body: bytes | memoryview) -> bytes:
    """Write a frame."""
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def field(name: str, value: str) -> bytes:
    """Write a header field that is in no table."""
    return b"\x10" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


_HEAD = b"\x88" + field("content-type", "application/grpc")
_TRAILERS = field("grpc-status", "0")


def message(body: bytes, length: int | None = None, *, compressed: bool = False) -> bytes:
    """Write a gRPC message; `length` is what it says to have."""
    return bytes((compressed,)) + (len(body) if length is None else length).to_bytes(4, "big") + body


class Answering:
    """One connection: each call is answered with these bytes, as the client's windows allow."""

    def __init__(self, connection: socket.socket, head: bytes = b"") -> None:
        self._connection, self._head = connection, _HEAD + head
        self._input = connection.makefile("rb")
        self._windows: dict[int, int] = {0: 65535}
        self._initial = 65535

    def serve(self, answer: Callable[[], bytes]) -> None:
        """Serve until the client leaves (OSError, EOFError)."""
        self._take(_PREFACE)
        self._connection.sendall(frame(SETTINGS, 0, 0, b""))
        pending: dict[int, memoryview] = {}
        while True:
            kind, flags, stream, body = self._frame()
            if kind == SETTINGS and not flags & ACK:
                self._settle(body)
            elif kind == PING and not flags & ACK:
                self._connection.sendall(frame(PING, ACK, 0, body))
            elif kind == WINDOW_UPDATE:
                self._windows[stream] = self._windows.get(stream, self._initial) + int.from_bytes(body, "big")
            elif kind == HEADERS:
                self._connection.sendall(frame(HEADERS, END_HEADERS, stream, self._head))
                pending[stream] = memoryview(answer())
            for one in list(pending):
                pending[one] = self._send(one, pending[one])
                if not pending[one]:
                    self._connection.sendall(frame(HEADERS, END_HEADERS | END_STREAM, one, _TRAILERS))
                    del pending[one]

    def flood(self, frames: bytes) -> None:
        """Send frames without end."""
        self._take(_PREFACE)
        self._connection.sendall(frame(SETTINGS, 0, 0, b""))
        for one in repeat(frames):
            self._connection.sendall(one)

    def _send(self, stream: int, left: memoryview) -> memoryview:
        self._windows.setdefault(stream, self._initial)
        at = 0
        while room := min(self._windows[0], self._windows[stream], _LARGEST_FRAME, len(left) - at):
            if room < 0:
                break
            self._connection.sendall(frame(DATA, 0, stream, left[at : at + room]))
            at += room
            self._windows[0] -= room
            self._windows[stream] -= room
        return left[at:]

    def _settle(self, settings: bytes) -> None:
        for at in range(0, len(settings), 6):
            if int.from_bytes(settings[at : at + 2], "big") == _INITIAL_WINDOW:
                before, self._initial = self._initial, int.from_bytes(settings[at + 2 : at + 6], "big")
                for stream in self._windows.keys() - {0}:
                    self._windows[stream] += self._initial - before
        self._connection.sendall(frame(SETTINGS, ACK, 0, b""))

    def _frame(self) -> tuple[int, int, int, bytes]:
        head = self._take(9)
        return head[3], head[4], int.from_bytes(head[5:9], "big"), self._take(int.from_bytes(head[:3], "big"))

    def _take(self, count: int) -> bytes:
        found = self._input.read(count)
        if len(found) < count:
            raise EOFError
        return found
