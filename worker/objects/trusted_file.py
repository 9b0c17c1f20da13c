"""Opens a file below a folder that only root can modify.

Used by `folder`. The content becomes environment and files of containers, and names host paths of volumes, so write access to it
amounts to root. Each folder on the path, and the file, is opened without following links and checked once it is open. A FIFO,
a device or a link is refused at once and never blocks.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from worker.machine.fingerprint import Fingerprint, fingerprint_of

LARGEST: Final = 4 << 20
"""Bytes; an object's values are at most 1 MiB, and base64 or YAML escapes make them longer."""
SETTLE_SECONDS: Final = 0.1
"""A file written more recently than this may still be incomplete."""
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0


class NotTrusted(Exception):
    """The file is not trusted; the message says why and what to do."""


class BeingWritten(Exception):
    """The file may still be being written: read it again after SETTLE_SECONDS."""


@contextlib.contextmanager
def trusted_folder(base: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open `base` and the folders `parts` below it one by one; yields a descriptor to open files at.

    Raises NotTrusted, and FileNotFoundError if one does not exist. Links above `base` are the operator's choice; below it they
    are refused.
    """
    above = Path(os.path.realpath(base)).parts  # opened by its real path, so none of its steps may become a link
    path, descriptor = Path(above[0]), os.open(above[0], _FOLDER)
    try:
        _refuse_folder(path, os.fstat(descriptor), sticky=True)
        for index, part in enumerate((*above[1:], *parts), start=1):
            path = path / part
            below = _open_folder(path, part, descriptor)
            os.close(descriptor)
            descriptor = below
            _refuse_folder(path, os.fstat(descriptor), sticky=index < len(above) - 1)
        yield descriptor
    finally:
        os.close(descriptor)


def read_trusted(
    folder: int, path: Path, known: Fingerprint | None, *, private: bool
) -> tuple[bytes | None, Fingerprint]:
    """Read the file `path.name` in an open folder; None if it is unchanged since `known`.

    With `private`, only root may be able to read it. Raises NotTrusted, FileNotFoundError and BeingWritten.
    """
    refuse_file(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False), private=private)
    try:
        descriptor = os.open(path.name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotTrusted(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        refuse_file(path, before, private=private)
        if (found := fingerprint_of(before)) == known:
            return None, found
        if 0 <= time.time() - before.st_mtime < SETTLE_SECONDS:
            raise BeingWritten
        data = file.read(LARGEST + 1)
        if fingerprint_of(os.fstat(descriptor)) != found:
            raise BeingWritten
    return data, found


def refuse_file(path: Path, found: os.stat_result, *, private: bool) -> None:
    """Raise NotTrusted unless it is a regular file of root that others cannot write (with `private`, nor read)."""
    if not stat.S_ISREG(found.st_mode):
        raise NotTrusted(f"{path} is {_kind(found.st_mode)}: put a regular file there")
    if found.st_uid != _ROOT:
        raise NotTrusted(f"{path} belongs to user {found.st_uid}: chown root it")
    mode = stat.S_IMODE(found.st_mode)
    if private and mode & (stat.S_IRWXG | stat.S_IRWXO | stat.S_ISUID | stat.S_IXUSR):
        raise NotTrusted(f"{path} has mode {mode:04o}, so others may see a secret: chmod 0600 it")
    if mode & _WRITABLE_BY_OTHERS:
        raise NotTrusted(f"{path} has mode {mode:04o}, so others may write it: chmod go-w it")
    if found.st_size > LARGEST:
        raise NotTrusted(f"{path} is larger than {LARGEST >> 20} MiB: make it smaller")


def _open_folder(path: Path, part: str, above: int) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # also for a link
        raise NotTrusted(f"{path} is a link or no folder: put a folder there") from error
    except OSError as error:
        raise NotTrusted(f"{path} cannot be opened: {error.strerror}") from error


def _refuse_folder(path: Path, found: os.stat_result, *, sticky: bool) -> None:
    """Refuse a folder that others can change; with `sticky`, one like /tmp is accepted, because root's files in it are safe."""
    if found.st_uid != _ROOT:
        raise NotTrusted(f"the folder {path} belongs to user {found.st_uid}: chown root it")
    if found.st_mode & _WRITABLE_BY_OTHERS and not (sticky and found.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(found.st_mode)
        raise NotTrusted(f"the folder {path} has mode {mode:04o}, so others may put files there: chmod go-w it")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")
