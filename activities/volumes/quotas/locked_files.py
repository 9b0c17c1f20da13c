"""/etc/projects and /etc/projid, locked against other programs as the kubelet locks them (pkg/volume/util/fsquota/project.go)."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from activities.volumes.quotas.project_files import ProjectFiles, parse, written

PROJECTS: Final = "projects"
NAMES: Final = "projid"
_ERRORS: Final = "surrogateescape"
"""Bytes that are no UTF-8 are kept."""


class LockedFiles:
    """Both files, as long as they are locked."""

    def __init__(self, folder: Path, files: ProjectFiles) -> None:
        """Take their folder and their lines."""
        self._folder, self.files = folder, files

    def write(self, files: ProjectFiles) -> None:
        """Replace what differs, the names first, so that no folder is without its id's name; raises OSError."""
        if files.names != self.files.names:
            _replace(self._folder / NAMES, written(files.names))
        if files.projects != self.files.projects:
            _replace(self._folder / PROJECTS, written(files.projects))
        self.files = files


def read_files(folder: Path) -> ProjectFiles:
    """Read /etc/projects without a lock: it is only ever replaced as a whole. Raises OSError."""
    try:
        return parse((folder / PROJECTS).read_bytes().decode("utf-8", _ERRORS), "")
    except FileNotFoundError:
        return ProjectFiles()


@contextmanager
def locked_files(folder: Path) -> Iterator[LockedFiles]:
    """Lock both files while the block runs, made if they are missing; raises OSError. Waits for who holds a lock."""
    with ExitStack() as closing:
        projects, names = (_locked(folder / name, closing) for name in (PROJECTS, NAMES))
        yield LockedFiles(folder, parse(_text(projects), _text(names)))


def _locked(file: Path, closing: ExitStack) -> int:
    """Open and lock a file: another program may have replaced it between both, and the lock would be one of the old file."""
    while True:
        opened = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            found = _plain(file, opened)
            fcntl.flock(opened, fcntl.LOCK_EX)
            if _is_there(file, found):
                closing.callback(os.close, opened)
                return opened
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)


def _plain(file: Path, opened: int) -> os.stat_result:
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{file} exists but is not a plain file, cannot continue")
    return found


def _is_there(file: Path, found: os.stat_result) -> bool:
    try:
        now = file.lstat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino)


def _text(opened: int) -> str:
    with os.fdopen(os.dup(opened), "rb") as file:
        return file.read().decode("utf-8", _ERRORS)


def _replace(file: Path, content: str) -> None:
    """Replace a file, which keeps its mode; after a crash it is the old or the new one."""
    new = file.with_name(f".{file.name}.tempolet")
    new.unlink(missing_ok=True)
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "wb") as writing:
        os.fchmod(opened, stat.S_IMODE(file.stat().st_mode))
        writing.write(content.encode("utf-8", _ERRORS))
        writing.flush()
        os.fsync(opened)
    new.replace(file)
