"""The records of an append-only file: length, checksum and position before the sealed bytes. Pure.

A crash may leave any part of the last record, or zeros in its place: what follows the last whole record is cut off before
another one is appended. A record that was damaged later is left out, as long as its length still leads to the next one.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

LARGEST_RECORD: Final = 512 * 1024
"""Bytes of a sealed value."""
_HEADER: Final = struct.Struct(">IIQ")
"""Length and CRC-32 of what follows; position."""
_POSITION: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its position is above that of the record before."""

    position: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """What a file holds."""

    records: tuple[Record, ...]
    end: int
    """Where the whole records end: the next one belongs there."""
    last: int = 0
    """The highest position of a record; 0: none."""
    damaged: int = 0
    """Records that were left out."""


def frame(position: int, sealed: bytes) -> bytes:
    """Return the bytes of a record."""
    return _HEADER.pack(len(sealed), _checksum(position, sealed), position) + sealed


def scan(data: bytes) -> Scan:
    """Read the records of a file; never raises."""
    records: list[Record] = []
    at = end = last = damaged = skipped = 0
    while at + _HEADER.size <= len(data):
        length, checksum, position = _HEADER.unpack_from(data, at)
        after = at + _HEADER.size + length
        if not 0 < length <= LARGEST_RECORD or after > len(data):
            break
        sealed = data[at + _HEADER.size : after]
        if checksum != _checksum(position, sealed):
            skipped += 1  # the last record: a part of it was written; another one: it was damaged later
        elif position <= last:
            damaged, skipped, end = damaged + skipped + 1, 0, after
        else:
            records.append(Record(position, sealed))
            damaged, skipped, end, last = damaged + skipped, 0, after, position
        at = after
    return Scan(tuple(records), end, last, damaged)


def _checksum(position: int, sealed: bytes) -> int:
    return zlib.crc32(sealed, zlib.crc32(_POSITION.pack(position)))
