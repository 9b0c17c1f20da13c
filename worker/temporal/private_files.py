"""Small files that only their owner may read: written whole or not at all, and refused if others may read them.

Used by `keys` for the key file and the token.
"""

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.files.atomic_files import sync_folder

_LARGEST_FILE: Final = 64 * 1024  # some 900 keys; more is not a key file
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyFileRefused(Exception):
    """A key or token file that must not be used; the message names it and says what to do."""


def read_private(path: Path) -> str:
    """Read a file; raises KeyFileRefused if others may read it, or if it is not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise KeyFileRefused(
            f"{path} does not exist: `tempolet up` creates it; or copy it from where it was created"
        ) from None
    except OSError as error:
        raise KeyFileRefused(f"{path} cannot be opened: {error.strerror} (a symbolic link is refused)") from error
    try:
        _check_private(path, os.fstat(fd))
        data = os.read(fd, _LARGEST_FILE + 1)
    finally:
        os.close(fd)
    if len(data) > _LARGEST_FILE:
        raise KeyFileRefused(f"{path} is over {_LARGEST_FILE} bytes: not a key or token file")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise KeyFileRefused(f"{path} is not text: not a key or token file") from None


def _check_private(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise KeyFileRefused(f"{path} is not a regular file")
    if facts.st_uid not in {os.geteuid(), 0}:
        raise KeyFileRefused(f"{path} belongs to uid {facts.st_uid}: chown it to uid {os.geteuid()}")
    if facts.st_mode & _OTHERS:
        raise KeyFileRefused(
            f"{path} has mode {stat.S_IMODE(facts.st_mode):04o}, others may read it: chmod 0600 {path}"
        )


def write_new(path: Path, text: str) -> None:
    """Write the file atomically; raises FileExistsError if it exists."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = write_aside(path, text)
    try:
        os.link(aside, path)  # unlike rename, never replaces
    finally:
        aside.unlink()
    sync_folder(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Replace a file atomically; its owner stays."""
    aside = write_aside(path, text)
    owner = path.stat()
    os.chown(aside, owner.st_uid, owner.st_gid)
    aside.replace(path)
    sync_folder(path.parent)


def write_aside(path: Path, text: str) -> Path:
    """Write the text to a new file beside `path`, to be linked or renamed; raises OSError."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    return aside


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[int]:
    """Lock the folder: the file is replaced, so a lock on it would be a lock on the old one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def version(path: Path) -> tuple[int, int, int]:
    """Return what changes whenever the file is replaced or written."""
    try:
        facts = path.stat()
    except OSError:
        return (0, 0, 0)
    return (facts.st_ino, facts.st_mtime_ns, facts.st_size)
