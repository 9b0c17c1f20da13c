"""The part of SPDY/3.1 that a client of the runtime's streaming server needs: encoding and decoding of frames. Pure.

Only this side opens streams, and the header blocks it receives are not needed. Neither Kubernetes nor containerd
(moby/spdystream) uses flow control windows: TCP limits the sender. Header blocks are compressed without the protocol's
dictionary, which zlib's format permits.
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
    """The control frames that are handled."""

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
        """Decode it."""
        first, second = _HEAD.unpack(data)
        flags, length = second >> 24, second & 0x00FF_FFFF
        if first & _CONTROL:
            return cls(first & 0xFFFF, 0, flags, length)
        return cls(None, first, flags, length)


class Opening:
    """Opens streams; header blocks share one zlib stream, so a connection has one of these."""

    def __init__(self) -> None:
        self._compressed = zlib.compressobj()

    def syn_stream(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Encode the frame that opens a stream; stream numbers are odd and increasing."""
        block = _NUMBER.pack(len(headers)) + b"".join(
            _NUMBER.pack(len(text)) + text
            for pair in headers.items()
            for text in (pair[0].lower().encode(), pair[1].encode())
        )
        packed = self._compressed.compress(block) + self._compressed.flush(zlib.Z_SYNC_FLUSH)
        return _control(Control.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + packed)


def data_frame(stream: int, data: bytes, *, last: bool = False) -> bytes:
    """Encode data for a stream; `last` closes this direction of it."""
    return _HEAD.pack(stream, (FIN if last else 0) << 24 | len(data)) + data


def ping(body: bytes) -> bytes:
    """Encode the answer to a ping."""
    return _control(Control.PING, body)


def stream_of(body: bytes) -> int:
    """Decode the stream number of a control frame; 0 if it has none."""
    return int(_NUMBER.unpack_from(body)[0]) & _STREAM if len(body) >= _NUMBER.size else 0


def _control(kind: Control, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, len(body)) + body
