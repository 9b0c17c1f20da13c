"""Reads one path of the manifest folder without ever blocking.

Called by `manifest_folder` for each name that inotify or a rescan reports. The path can be anything: a FIFO without a
writer, a device, a link to itself, a file that is still being written. Each is answered at once, with bounded memory
(pkg/kubelet/config/file.go, common.go: 10 MiB).
"""

import hashlib
import os
import stat
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from worker.machine.fingerprint import Fingerprint, fingerprint_of

LARGEST: Final = 10 << 20
SETTLE: Final = timedelta(milliseconds=500)
"""How long a file must be unchanged before it is read, if no event reported it as closed."""


@dataclass(frozen=True, slots=True)
class Content:
    """A whole file."""

    data: bytes
    digest: bytes
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The file has not changed since it was last read."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The file may still be being written: look again after SETTLE."""


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no file of this name."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """It cannot be a manifest; `keeps_pod` if the previous file may still be behind it."""

    reason: str
    message: str
    keeps_pod: bool = False


Look = Content | Unchanged | Unsettled | Gone | NotTaken


def look_at(path: str, now: datetime, known: Fingerprint | None = None, *, closed: bool = False) -> Look:
    """Read a path if it is a regular file (links are followed) that has changed.

    `closed`: an event reported a finished write, so the file is read whatever its times.
    """
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return _dangling(path)
    except OSError as error:  # ELOOP, EACCES, EIO …
        return _unreadable(error)
    if refused := _wrong_kind(found.st_mode):
        return refused
    if not closed:
        if fingerprint_of(found) == known:
            return Unchanged()
        if _being_written(path, found, now):
            return Unsettled()
    return _read(path, closed=closed)


def _read(path: str, *, closed: bool) -> Look:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Gone()
    except OSError as error:
        return _unreadable(error)
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        if refused := _wrong_kind(before.st_mode):  # it was replaced between stat and open
            return refused
        try:
            data = file.read(LARGEST + 1)
        except OSError as error:
            return _unreadable(error)
        after = os.fstat(descriptor)
    if len(data) > LARGEST:
        return NotTaken(
            "ManifestTooLarge", f"larger than {LARGEST >> 20} MiB, the kubelet's limit; make it smaller", keeps_pod=True
        )
    if not closed and fingerprint_of(before) != fingerprint_of(after):
        return Unsettled()
    return Content(data, hashlib.sha256(data).digest(), fingerprint_of(after))


def _being_written(path: str, found: os.stat_result, now: datetime) -> bool:
    """Report whether a regular file was modified a moment ago; links are replaced as a whole and never wait."""
    age = now.timestamp() - found.st_mtime
    if not 0 <= age < SETTLE.total_seconds() or found.st_nlink > 1:
        return False
    try:
        return not Path(path).is_symlink()
    except OSError:
        return False


def _wrong_kind(mode: int) -> NotTaken | None:
    if stat.S_ISREG(mode):
        return None
    kinds = {
        stat.S_IFDIR: "a folder; subfolders of the manifest folder are not read",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(mode), "no regular file")
    return NotTaken("NotAFile", f"is {kind}; a manifest is a regular file or a link to one")


def _dangling(path: str) -> Gone | NotTaken:
    try:
        target = Path(path).readlink()
    except OSError:
        return Gone()
    return NotTaken("DanglingLink", f"links to {target}, which does not exist; create it, or remove the link")


def _unreadable(error: OSError) -> NotTaken:
    return NotTaken(
        "ManifestUnreadable", f"can't be read: {error.strerror}; it is tried again every 20 s", keeps_pod=True
    )
