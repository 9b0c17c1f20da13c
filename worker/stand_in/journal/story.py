"""The story of one pod: what happened to it while Temporal was away, in a file that only grows.

An entry is on disk when `append` returns, unless the caller says that it may wait. At most LARGEST_STORY bytes are stored; after
that only counts by kind. Positions rise for as long as the pod lives and begin above what the pod's kept state already holds.
"""

from collections.abc import Iterator
from typing import Final

import structlog

from proto.temporal.away import StoryEntry
from worker.payloads.refused import PayloadRefused
from worker.stand_in.journal.frames import LARGEST_RECORD, Record, Scan, scan
from worker.stand_in.journal.kept import LeftOut, NumberedEntry, Story
from worker.stand_in.journal.private_folder import NotOurs, PrivateFolder
from worker.stand_in.journal.record_file import RecordFile
from worker.stand_in.journal.sealed import SealedValues
from worker.temporal.keys import KeyMissing

STORY: Final = "story"
COUNTS: Final = "left-out"
LARGEST_STORY: Final = 4 * 1024 * 1024
"""Bytes of the file."""
_LARGEST_COUNTS: Final = 64 * 1024

_log: Final = structlog.get_logger(__name__)


class StoryFile:
    """The files of one pod's story, and how far they are written; every call blocks on files. Not thread-safe."""

    def __init__(self, sealing: SealedValues, workflow_id: str, *, above: int = 0) -> None:
        """Take the workflow; positions begin above `above`."""
        self._sealing = sealing
        self._workflow_id = workflow_id
        self._file = RecordFile(STORY, LARGEST_STORY)
        self._left_out: LeftOut | None = None
        """None: not looked yet."""
        self._last = above

    def append(self, folder: PrivateFolder, entry: StoryEntry, *, synced: bool) -> int:
        """Append an entry, or count it; returns its position. Raises OSError: then the story has nothing of it."""
        left_out = self._look(folder)
        position = self._last + 1
        sealed = self._sealed(position, entry)
        counts = left_out.counts | {entry.kind: left_out.counts.get(entry.kind, 0) + 1}
        if left_out.is_full or not self._file.has_room(sealed):
            self._count(folder, LeftOut(position, counts, is_full=True), synced=synced)
        elif len(sealed) > LARGEST_RECORD:
            self._count(folder, LeftOut(position, counts), synced=synced)
        else:
            self._file.append(folder, position, sealed, synced=synced)
        self._last = position
        return position

    def end(self, folder: PrivateFolder, position: int) -> bool:
        """Remove the files unless they have a later entry; returns whether they had none. Positions go on. Raises OSError."""
        self._look(folder)
        if self._last > position:
            return False
        remove_story(folder)
        self._file.forget()
        self._left_out = None
        return True

    def _look(self, folder: PrivateFolder) -> LeftOut:
        """Find out, once, how far the files are written; raises OSError."""
        self._file.look(folder)
        if self._left_out is None:
            self._left_out = read_counts(folder, self._sealing, self._workflow_id)
        self._last = max(self._last, self._file.last, self._left_out.position)
        return self._left_out

    def _sealed(self, position: int, entry: StoryEntry) -> bytes:
        values = [self._sealing.plain(position), self._sealing.plain(entry)]
        return self._sealing.seal(values, self._workflow_id, STORY)

    def _count(self, folder: PrivateFolder, left_out: LeftOut, *, synced: bool) -> None:
        sealed = self._sealing.seal([self._sealing.plain(left_out)], self._workflow_id, COUNTS)
        folder.replace(COUNTS, sealed, synced=synced)
        self._left_out = left_out


def remove_story(folder: PrivateFolder) -> None:
    """Remove the files of a story."""
    for name in (STORY, COUNTS, f".{COUNTS}"):
        folder.remove(name)


def read_story(folder: PrivateFolder, sealing: SealedValues, workflow_id: str, after: int) -> Story:
    """Read the entries after a position, while another process may append; never raises. What is refused is counted, and logged."""
    unreadable = 0
    try:
        known = scan(folder.read(STORY, LARGEST_STORY))
    except FileNotFoundError:
        known = Scan((), 0)
    except OSError as error:
        _log.warning("the story of a pod is left out", workflow=workflow_id, err=str(error))
        known, unreadable = Scan((), 0), 1
    unreadable += known.damaged
    entries = []
    for found in _opened(known, sealing, workflow_id, after):
        if isinstance(found, NumberedEntry):
            entries.append(found)
        else:
            unreadable += 1
    if unreadable:
        _log.warning("records of a pod's story are left out", workflow=workflow_id, number=unreadable)
    return Story(tuple(entries), read_counts(folder, sealing, workflow_id), unreadable)


def _opened(known: Scan, sealing: SealedValues, workflow_id: str, after: int) -> Iterator[NumberedEntry | None]:
    for record in known.records:
        if record.position > after:
            yield _open(record, sealing, workflow_id)


def _open(record: Record, sealing: SealedValues, workflow_id: str) -> NumberedEntry | None:
    """Open a record; None for one that is not this pod's, not at its place, or of another release."""
    try:
        _, (position, entry) = sealing.open(record.sealed, STORY, workflow_id)
        if sealing.value(position, int) != record.position:
            return None
        return NumberedEntry(record.position, sealing.value(entry, StoryEntry))
    except Exception:  # noqa: BLE001 - whatever the file holds, the other records are read
        return None


def read_counts(folder: PrivateFolder, sealing: SealedValues, workflow_id: str) -> LeftOut:
    """Read what was only counted; nothing if the file is missing or refused."""
    try:
        _, (counts,) = sealing.open(folder.read(COUNTS, _LARGEST_COUNTS), COUNTS, workflow_id)
        return sealing.value(counts, LeftOut)
    except FileNotFoundError:
        return LeftOut()
    except (NotOurs, OSError, PayloadRefused, KeyMissing, ValueError) as error:
        _log.warning("the counts of a pod's story are left out", workflow=workflow_id, err=str(error))
        return LeftOut()
