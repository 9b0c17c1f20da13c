"""The folder of Temporal's database, which is given to whoever Temporal runs as before each start.

Called by the gateway while it holds the lock, so no Temporal has the files open. An earlier release had them in the state folder, as
root's; they are moved here by hard links, and a link in their place is the moment from which on they count as moved. So a move that
was cut off is begun again, and an earlier release finds the database by that link.

The folder may be that of a user whom somebody has taken over. So it is root's while owners are changed: nobody exchanges a name
between a look and a change. No link is followed in it, and a file that has another name elsewhere is refused.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "temporal"
DATABASE: Final = "temporal.db"
BESIDE: Final = ("temporal.db-wal", "temporal.db-shm")
"""SQLite's log and its index: without the log, commits are lost."""
_LINK: Final = f"{FOLDER}/{DATABASE}"
_NEW_LINK: Final = ".temporal.db.link"
_OPENED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


class DatabaseRefused(OSError):
    """A file of the database is not what it must be; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who Temporal runs as."""

    uid: int = 0
    gid: int = 0

    def owns_alone(self, found: os.stat_result, mode: int) -> bool:
        """Report whether a file or folder is this one's, and of no use to others."""
        return (found.st_uid, found.st_gid, found.st_mode) == (self.uid, self.gid, mode)


ROOT: Final = Owner()


def give_to(owner: Owner, state_dir: Path) -> None:
    """Make the folder, move an earlier release's database there, and give all of it to `owner`; raises OSError.

    What is right already is not changed. Cut off at any moment, it goes on with the next call.
    """
    with _opened(state_dir) as state:
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, _PRIVATE_FOLDER, dir_fd=state)
        with _opened(FOLDER, state) as folder:
            if _is_unmoved(state, state_dir):
                _lock(folder)
                _link_into(folder, state, state_dir)
            _leave_link(state)
            for name in BESIDE:  # their other names; whoever follows the link has SQLite's files beside its end
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=state)
            _give(folder, owner, state_dir / FOLDER)


@contextlib.contextmanager
def _opened(name: Path | str, at: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, _OPENED | os.O_DIRECTORY, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_unmoved(state: int, state_dir: Path) -> bool:
    """Report whether the database is still where an earlier release had it; raises DatabaseRefused for a link of somebody else."""
    found = _look(DATABASE, state)
    if found is None:
        return False
    if stat.S_ISREG(found.st_mode):
        return True
    if stat.S_ISLNK(found.st_mode) and os.readlink(DATABASE, dir_fd=state) == _LINK:
        return False
    raise DatabaseRefused(
        f"{state_dir / DATABASE} is neither a database nor tempolet's link to one: move what it leads to into its place"
    )


def _link_into(folder: int, state: int, state_dir: Path) -> None:
    """Give the files in the state folder, which count, a second name in the folder of the database."""
    there = _look(DATABASE, folder)
    if there is not None and not os.path.samestat(there, os.lstat(DATABASE, dir_fd=state)):
        raise DatabaseRefused(
            f"there are two databases, {state_dir / DATABASE} and {state_dir / _LINK}: move the one that is not wanted away"
        )
    for name in (*BESIDE, DATABASE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        if (found := _look(name, state)) is not None:
            if not stat.S_ISREG(found.st_mode):
                raise DatabaseRefused(f"{state_dir / name} is no file: move it away")
            os.link(name, name, src_dir_fd=state, dst_dir_fd=folder, follow_symlinks=False)
    os.fsync(folder)


def _leave_link(state: int) -> None:
    """Let the name in the state folder lead to the folder of the database; from now on the files count as moved."""
    found = _look(DATABASE, state)
    if found is not None and stat.S_ISLNK(found.st_mode):
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_NEW_LINK, dir_fd=state)
    os.symlink(_LINK, _NEW_LINK, dir_fd=state)
    os.replace(_NEW_LINK, DATABASE, src_dir_fd=state, dst_dir_fd=state)
    os.fsync(state)


def _give(folder: int, owner: Owner, path: Path) -> None:
    """Give the folder and its files to `owner`, the folder last."""
    files = [name for name in (DATABASE, *BESIDE) if _look(name, folder) is not None]
    if owner.owns_alone(os.fstat(folder), stat.S_IFDIR | _PRIVATE_FOLDER) and all(
        owner.owns_alone(os.lstat(name, dir_fd=folder), stat.S_IFREG | _PRIVATE_FILE) for name in files
    ):
        return
    _lock(folder)
    for name in files:
        _give_file(folder, name, owner, path)
    os.fchown(folder, owner.uid, owner.gid)


def _lock(folder: int) -> None:
    """Let nobody but root make, remove or exchange names in the folder."""
    os.fchown(folder, ROOT.uid, ROOT.gid)
    os.fchmod(folder, _PRIVATE_FOLDER)


def _give_file(folder: int, name: str, owner: Owner, path: Path) -> None:
    found = os.lstat(name, dir_fd=folder)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise DatabaseRefused(
            f"{path / name} is a link, or has another name elsewhere, so its owner is not changed: copy it if it is the database, "
            f"move it away, and put the copy into its place"
        )
    descriptor = os.open(name, _OPENED, dir_fd=folder)
    try:
        os.fchmod(descriptor, _PRIVATE_FILE)
        os.fchown(descriptor, owner.uid, owner.gid)
    finally:
        os.close(descriptor)


def _look(name: str, at: int) -> os.stat_result | None:
    """Look at a name without following a link; None if it is not there."""
    try:
        return os.lstat(name, dir_fd=at)
    except FileNotFoundError:
        return None
