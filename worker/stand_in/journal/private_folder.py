"""Files in folders that only root may enter, opened one below the other without following links.

What is not a regular file of this process's user, is larger than allowed, or may be written by others is refused when it is read. The
one process that writes replaces it.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import structlog

from activities.files.atomic_files import sync_folder

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_REPLACE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_NO_FILE: Final = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR)
"""A link, a FIFO or socket, a device, a folder."""

_log: Final = structlog.get_logger(__name__)


class NotOurs(OSError):
    """A file or folder that this process did not make so; the message says why."""


class PrivateFolder:
    """An open folder."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, *, make: bool = False) -> Iterator[Self]:
        """Open a folder; with `make` it is made, or made private. Raises OSError, FileNotFoundError, NotOurs."""
        if make:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        with cls._opened(path, None, make=make) as folder:
            yield folder

    @contextlib.contextmanager
    def below(self, name: str, *, make: bool = False) -> Iterator[Self]:
        """Open a folder in this one; the same."""
        with self._opened(self.path / name, self._descriptor, make=make) as folder:
            yield folder

    @classmethod
    @contextlib.contextmanager
    def _opened(cls, path: Path, above: int | None, *, make: bool) -> Iterator[Self]:
        name = path if above is None else path.name
        is_new = False
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, _FOLDER_MODE, dir_fd=above)
                is_new = True
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=above)
        except NotADirectoryError as error:  # also for a link
            raise NotOurs(f"{path} is a link or no folder") from error
        try:
            facts = os.fstat(descriptor)
            if make and facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != _FOLDER_MODE:
                os.fchmod(descriptor, _FOLDER_MODE)
                facts = os.fstat(descriptor)
            _refuse(path, facts)
            if is_new:
                sync_folder(path.parent)
            yield cls(descriptor, path)
        finally:
            os.close(descriptor)

    def names(self, most: int) -> list[str]:
        """List the names in the folder, at most so many."""
        found = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) == most:
                    break
        return sorted(found)

    def read(self, name: str, largest: int) -> bytes:
        """Read a file; raises FileNotFoundError, NotOurs, OSError."""
        path = self.path / name
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise NotOurs(f"{path} cannot be opened: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            _refuse_file(path, os.fstat(descriptor), largest)
            return file.read(largest)

    def replace(self, name: str, data: bytes, *, synced: bool = True) -> None:
        """Replace a file atomically; with `synced`, its content is on disk before it gets its name. Raises OSError."""
        new = f".{name}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=self._descriptor)
        try:
            descriptor = os.open(new, _REPLACE, _FILE_MODE, dir_fd=self._descriptor)
            try:
                _write(descriptor, data)
                if synced:
                    os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(new, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            self.remove(new)
            raise

    @contextlib.contextmanager
    def appending(self, name: str, largest: int) -> Iterator[int]:
        """Open a file to append to, which is made, and made anew if it is not ours; raises OSError."""
        descriptor = self._open_to_append(name, largest)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_to_append(self, name: str, largest: int) -> int:
        path = self.path / name
        try:
            return self._try_to_open(name, largest)
        except NotOurs as error:
            _log.warning("a file of the journal is not ours, making a new one", path=str(path), err=str(error))
        os.unlink(name, dir_fd=self._descriptor)
        return self._try_to_open(name, largest)

    def _try_to_open(self, name: str, largest: int) -> int:
        path = self.path / name
        try:
            descriptor = os.open(name, _APPEND, _FILE_MODE, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in _NO_FILE:
                raise NotOurs(f"{path} cannot be opened: {error.strerror}") from error
            raise
        try:
            _refuse_file(path, os.fstat(descriptor), largest)
        except NotOurs:
            os.close(descriptor)
            raise
        return descriptor

    def remove(self, name: str) -> None:
        """Remove a file, or the link in its place; one that is missing or cannot be removed stays as it is."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Put the names in the folder on disk; raises OSError."""
        os.fsync(self._descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _refuse_file(path: Path, facts: os.stat_result, largest: int) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise NotOurs(f"{path} is no regular file")
    _refuse(path, facts)
    if facts.st_size > largest:
        raise NotOurs(f"{path} has {facts.st_size} bytes, at most {largest} were written")


def _refuse(path: Path, facts: os.stat_result) -> None:
    if facts.st_uid != os.geteuid():
        raise NotOurs(f"{path} belongs to uid {facts.st_uid}")
    if facts.st_mode & _WRITABLE_BY_OTHERS:
        raise NotOurs(f"{path} has mode {stat.S_IMODE(facts.st_mode):04o}, so others may write it")
