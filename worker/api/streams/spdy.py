"""The part of SPDY/3.1 that a client of the runtime's streaming server needs: frames as bytes. Pure.

Asked by `translation`. Streams are opened by us only, the header blocks that come back are not needed, and neither Kubernetes'
nor containerd's side (moby/spdystream) keeps flow windows: TCP holds whoever is too fast. A header block is compressed without the
protocol's dictionary, which zlib's own format allows.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

HEAD_SIZE: Final = 8
FIN: Final = 0x01
LARGEST_CONTROL: Final = 64 * 1024
_VERSION: Final = 3
_CONTROL: Final = 0x8000_0000
_STREAM: Final = 0x7FFF_FFFF
_HEAD: Final = struct.Struct(">II")
_NUMBER: Final = struct.Struct(">I")


class Control(IntEnum):
    """Kinds of control frames that mean something here."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


@dataclass(frozen=True, slots=True)
class Head:
    """The first eight bytes of a frame; `control` is None for data, which belongs to `stream`."""

    control: int | None
    stream: int
    flags: int
    length: int

    @classmethod
    def parse(cls, data: bytes) -> "Head":
        """Read it."""
        first, second = _HEAD.unpack(data)
        flags, length = second >> 24, second & 0x00FF_FFFF
        if first & _CONTROL:
            return cls(first & 0xFFFF, 0, flags, length)
        return cls(None, first, flags, length)


class Opening:
    """Opens streams; their header blocks are one stream of zlib, so there is one of these a connection."""

    def __init__(self) -> None:
        self._compressed = zlib.compressobj()

    def syn_stream(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Write the frame that opens a stream, whose number is odd and above those before it."""
        block = _NUMBER.pack(len(headers)) + b"".join(
            _NUMBER.pack(len(text)) + text
            for pair in headers.items()
            for text in (pair[0].lower().encode(), pair[1].encode())
        )
        packed = self._compressed.compress(block) + self._compressed.flush(zlib.Z_SYNC_FLUSH)
        return _control(Control.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + packed)


def data_frame(stream: int, data: bytes, *, last: bool = False) -> bytes:
    """Write what goes over a stream; `last` closes our direction of it."""
    return _HEAD.pack(stream, (FIN if last else 0) << 24 | len(data)) + data


def ping(body: bytes) -> bytes:
    """Answer a ping with its own number."""
    return _control(Control.PING, body)


def stream_of(body: bytes) -> int:
    """Read which stream a control frame is about; 0 where it names none."""
    return int(_NUMBER.unpack_from(body)[0]) & _STREAM if len(body) >= _NUMBER.size else 0


def _control(kind: Control, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, len(body)) + body
