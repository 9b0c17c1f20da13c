"""A file of records that only grows, in the one process that writes it. Blocks on files; not thread-safe."""

import errno
import os
from typing import Final

from worker.stand_in.journal.frames import Scan, frame, scan
from worker.stand_in.journal.private_folder import PrivateFolder

_NOT_LOOKED: Final = -1


class RecordFile:
    """One file, and how far it is written."""

    def __init__(self, name: str, largest: int) -> None:
        """Take the file's name and the most bytes that it may have."""
        self._name = name
        self._largest = largest
        self._size = _NOT_LOOKED
        """Bytes of whole records."""
        self.last = 0
        """The highest position of a record, as of the last look."""

    def look(self, folder: PrivateFolder) -> None:
        """Find out, once, how far the file is written; it is made if it is missing. Raises OSError."""
        if self._size == _NOT_LOOKED:
            with folder.appending(self._name, self._largest) as descriptor:
                self._take(scan(os.pread(descriptor, self._largest, 0)))

    def has_room(self, sealed: bytes) -> bool:
        """Say whether a record with this content fits into the file."""
        return self._size + len(frame(0, sealed)) <= self._largest

    def append(self, folder: PrivateFolder, position: int, sealed: bytes, *, synced: bool) -> None:
        """Append a record, after what a crash or a full disk left behind the last whole one was cut off.

        Raises OSError: then the record is not in the file.
        """
        record = frame(position, sealed)
        with folder.appending(self._name, self._largest) as descriptor:
            found = os.fstat(descriptor).st_size
            if found < self._size:  # another file is in its place
                self._take(scan(os.pread(descriptor, self._largest, 0)))
            if found > self._size:
                os.ftruncate(descriptor, self._size)
            if not self._size:
                folder.sync()  # the file's name
            _write(descriptor, record, self._size, synced=synced)
        self._size, self.last = self._size + len(record), position

    def forget(self) -> None:
        """Look again next time: the file was removed or replaced."""
        self._size = _NOT_LOOKED

    def _take(self, known: Scan) -> None:
        self._size, self.last = known.end, max(self.last, known.last)


def _write(descriptor: int, record: bytes, size: int, *, synced: bool) -> None:
    """Write a record whole or not at all; raises OSError."""
    try:
        written = os.write(descriptor, record)
        if synced:
            os.fdatasync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise
    if written < len(record):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, "the disk took only a part of the record")
