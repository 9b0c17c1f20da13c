"""How much of the embedded Temporal's SQLite database is in use.

Asked by the worker, which prunes histories, and by the node process, which shows a condition. The file itself never becomes
smaller: pages of deleted histories are free and are used again, so they do not count. What was deleted since the last checkpoint is only
in the write-ahead log, so that is read, too.

Both are root's processes, and the files are Temporal's user's, whom somebody may have taken over. So SQLite is not asked: it would parse,
make, change and own files by names that are the user's. Instead numbers at fixed places are read, of plain files, without following a
link (https://sqlite.org/fileformat2.html, sections 1.3 and 4).
"""

import contextlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from proto.kubernetes.resources.quantity import NANO, parse_quantity

HEADER_BYTES: Final = 100
MAGIC: Final = b"SQLite format 3\0"
LOG_MAGIC: Final = (0x377F0682, 0x377F0683)
LOG_HEADER: Final = struct.Struct(">IIII8sII")
"""Magic, version, page size, checkpoint number, two salts, two checksums."""
FRAME: Final = struct.Struct(">II8sII")
"""Before each page of the log: its number, the pages of the database after a commit, two salts, two checksums."""
LONGEST_LOG: Final = 1 << 18
"""Frames; SQLite begins the log anew after a thousand, unless a reader keeps it from doing so."""
SMALLEST_PAGE: Final = 512
LARGEST_PAGE: Final = 1 << 16


def limit_bytes(quantity: str) -> int:
    """Return the limit in bytes; raises QuantityError."""
    return parse_quantity(quantity).nanos // NANO


def used_bytes(file: Path) -> int:
    """Return the bytes of pages that are in use; raises ValueError if the file cannot be read."""
    try:
        real = file.parent / file.readlink() if file.is_symlink() else file
        with _opened(real) as database:
            header = _Header.of(os.pread(database, HEADER_BYTES, 0))
        with contextlib.suppress(FileNotFoundError), _opened(real.with_name(f"{real.name}-wal")) as log:
            header = _last_committed(log, header)
    except (OSError, struct.error) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    except ValueError as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    return max(0, header.pages - header.free) * header.page_bytes


@dataclass(frozen=True, slots=True)
class _Header:
    """The first bytes of the database's first page."""

    page_bytes: int
    pages: int
    free: int

    @classmethod
    def of(cls, page: bytes) -> Self:
        """Read it; raises ValueError."""
        if len(page) < HEADER_BYTES or not page.startswith(MAGIC):
            raise ValueError("it is no database of SQLite")
        (page_bytes,) = struct.unpack_from(">H", page, 16)
        pages, _, free = struct.unpack_from(">III", page, 28)
        return cls(LARGEST_PAGE if page_bytes == 1 else page_bytes, pages, free)


def _last_committed(log: int, header: _Header) -> _Header:
    """Return the header as of the last commit in the log; the given one if there is none. Raises ValueError."""
    first = os.pread(log, LOG_HEADER.size, 0)
    if len(first) < LOG_HEADER.size:
        return header
    magic, _, page_bytes, _, salts, *_ = LOG_HEADER.unpack(first)
    if magic not in LOG_MAGIC or not SMALLEST_PAGE <= page_bytes <= LARGEST_PAGE:
        return header
    found, begun = header, None
    for number in range(LONGEST_LOG):
        at = LOG_HEADER.size + number * (FRAME.size + page_bytes)
        frame = os.pread(log, FRAME.size + HEADER_BYTES, at)
        if len(frame) < FRAME.size + HEADER_BYTES:
            return found
        page, pages_after, of_log, *_ = FRAME.unpack_from(frame)
        if of_log != salts:  # left over from before the log was begun anew
            return found
        if page == 1:
            begun = _Header.of(frame[FRAME.size :])
        if pages_after:
            found = _Header(page_bytes, pages_after, (begun or found).free)
    raise ValueError(f"its log has more than {LONGEST_LOG} pages")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[int]:
    """Open a plain file; raises OSError, and ValueError for another kind."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{file.name} is no file")
        yield descriptor
    finally:
        os.close(descriptor)
