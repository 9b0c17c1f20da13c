"""Which pods are gone, for as long as Temporal keeps their histories: an older database may still have them as running.

One file of sealed records. A pod that is started again under its old UID has a record that says so; the last record of a pod counts.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from worker.stand_in.journal.frames import frame, scan
from worker.stand_in.journal.kept import Tombstone
from worker.stand_in.journal.private_folder import PrivateFolder
from worker.stand_in.journal.record_file import RecordFile
from worker.stand_in.journal.sealed import SealedValues

FILE: Final = "_gone"
"""No UID that can be part of a path begins like this."""
LARGEST_FILE: Final = 16 * 1024 * 1024
"""Bytes."""
_LONGEST_MESSAGE: Final = 256
"""Characters of an outcome's message."""

_log: Final = structlog.get_logger(__name__)


def lasting(found: Mapping[str, Tombstone], now: datetime, retention: timedelta, most: int) -> dict[str, Tombstone]:
    """Return the tombstones that are still of use, oldest first: at most so many, none older than the retention.

    A clock that was set back makes none older.
    """
    young = {key: one for key, one in found.items() if now - one.at <= retention}
    return dict(list(young.items())[-most:])


class Tombstones:
    """The file, and the tombstones in memory; blocks on files. Not thread-safe."""

    def __init__(self, sealing: SealedValues, retention: timedelta, most: int) -> None:
        """Take how long a tombstone is kept, and how many are."""
        self._sealing = sealing
        self._retention = retention
        self._most = most
        self._file = RecordFile(FILE, LARGEST_FILE)
        self._written = 0
        """Records in the file."""
        self.gone: dict[str, Tombstone] = {}
        """By workflow id, oldest first."""

    def read(self, folder: PrivateFolder, now: datetime) -> None:
        """Read the file; never raises. What is refused is left out, and logged."""
        try:
            records = scan(folder.read(FILE, LARGEST_FILE)).records
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("the record of pods that are gone is left out", err=str(error))
            return
        found = [self._open(record.sealed) for record in records]
        for one in found:
            if one is not None:
                self._take(one)
        if None in found:
            _log.warning("records of pods that are gone are left out", number=found.count(None))
        is_of_newest_key = all(self._sealing.is_of_newest_key(record.sealed) for record in records)
        self._written = len(records) if is_of_newest_key else 2 * self._most  # the next one writes all anew
        self.gone = lasting(self.gone, now, self._retention, self._most)

    def add(self, folder: PrivateFolder, one: Tombstone, now: datetime) -> None:
        """Write a tombstone, or that a pod lives again; raises OSError."""
        sealed = self._sealed(one)
        self._file.look(folder)
        if self._written >= 2 * self._most or not self._file.has_room(sealed):
            self._write_anew(folder, now)
        self._file.append(folder, self._file.last + 1, sealed, synced=True)
        self._written += 1
        self._take(one)
        self.gone = lasting(self.gone, now, self._retention, self._most)

    def _write_anew(self, folder: PrivateFolder, now: datetime) -> None:
        """Replace the file by one that has only what still counts."""
        self.gone = lasting(self.gone, now, self._retention, self._most)
        frames = [frame(number, self._sealed(one)) for number, one in enumerate(self.gone.values(), start=1)]
        folder.replace(FILE, b"".join(frames))
        self._file = RecordFile(FILE, LARGEST_FILE)
        self._file.look(folder)
        self._written = len(frames)

    def _take(self, one: Tombstone) -> None:
        self.gone.pop(one.workflow_id, None)
        if not one.lives_again:
            self.gone[one.workflow_id] = one

    def _sealed(self, one: Tombstone) -> bytes:
        if one.outcome is not None:
            one = replace(one, outcome=replace(one.outcome, message=one.outcome.message[:_LONGEST_MESSAGE]))
        return self._sealing.seal([self._sealing.plain(one)], one.workflow_id, FILE)

    def _open(self, sealed: bytes) -> Tombstone | None:
        with suppress(Exception):  # whatever the file holds, the other records are read
            _, (value,) = self._sealing.open(sealed, FILE)
            return self._sealing.value(value, Tombstone)
        return None
