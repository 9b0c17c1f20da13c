"""A container's log files, opened such that only a log file is ever read, moved or removed.

Used by `rotation`, `reader` and `links`. A program that can write to a log folder (a pod that mounts it, a log agent)
could put a link there and let root read or compress a file of the host. So every folder below podLogsDir is opened relative
to its parent without following links, a file is checked after it was opened, and a file with a second name (a hard
link) is refused as well.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from activities.files.pod_paths import PodPaths

SUFFIX: Final = ".log"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)  # O_NONBLOCK: opening a FIFO must not wait for a writer


class ForeignFile(OSError):
    """The file is no log file: a link, a FIFO, or a file with another name elsewhere."""


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The log of one instance of a container: `<container>/<attempt>.log` in the pod's log folder."""

    paths: PodPaths
    container: str
    attempt: int

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return f"{self.attempt}{SUFFIX}"

    @property
    def path(self) -> Path:
        """Its path, for messages and a first check; everything else uses `folder`."""
        return self.paths.container_logs(self.container) / self.name

    @contextmanager
    def folder(self) -> Iterator[int]:
        """Yield a descriptor of the container's log folder; raises OSError, also for a link in its path."""
        path = self.path.parent
        opened = [os.open(self.paths.pod_logs_dir, _FOLDER)]
        try:
            for name in path.relative_to(self.paths.pod_logs_dir).parts:
                opened.append(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=opened[-1]))
            yield opened[-1]
        finally:
            for one in opened:
                os.close(one)

    def open(self) -> BinaryIO:
        """Open the file for reading; raises FileNotFoundError, ForeignFile or another OSError."""
        with self.folder() as folder:
            return open_log(folder, self.name)

    def attempts(self) -> list[int]:
        """List the attempts that have logs in the folder, oldest first; raises OSError."""
        with self.folder() as folder:
            stems = (name.removesuffix(SUFFIX) for name in names_in(folder) if name.endswith(SUFFIX))
            return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdecimal())


def open_log(folder: int, name: str) -> BinaryIO:
    """Open a log file of a folder for reading; raises FileNotFoundError, ForeignFile or another OSError."""
    try:
        opened = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ForeignFile(f"{name} is a link, so it is left alone") from error
        raise
    try:
        refuse_foreign(os.fstat(opened), name)
        return os.fdopen(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


def status_of(folder: int, name: str) -> os.stat_result:
    """Return the status of a log file of a folder; raises FileNotFoundError, ForeignFile or another OSError."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    refuse_foreign(found, name)
    return found


def refuse_foreign(found: Any, name: str) -> None:
    """Raise ForeignFile unless it is a regular file with one name, as the runtime creates logs."""
    if not stat.S_ISREG(found.st_mode):
        raise ForeignFile(f"{name} is not a regular file and is left alone")
    if found.st_nlink > 1:
        raise ForeignFile(f"{name} is a file that has another name elsewhere (a hard link), so it is left alone")


def names_in(folder: int) -> list[str]:
    """List the names in a folder."""
    return os.listdir(folder)
