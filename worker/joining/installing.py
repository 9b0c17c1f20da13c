"""Writes what was planned, and only that: a file that join did not write, or that was edited since, is refused by name.

First everything is looked at, then everything is written. Blocks on files.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_atomically
from worker.joining.planned import PlannedFile
from worker.joining.record import Record, digest
from worker.joining.refusal import JoinRefused

_LARGEST: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Installation:
    """The planned files that are not there yet."""

    missing: tuple[PlannedFile, ...]
    outdated: tuple[PlannedFile, ...]
    unchanged: tuple[PlannedFile, ...]

    @property
    def changes(self) -> tuple[PlannedFile, ...]:
        """What is to be written."""
        return self.missing + self.outdated

    def lines(self) -> Iterable[str]:
        """Say what would be written where; no content."""
        for one in self.missing:
            yield f"write {one.path} (mode {one.mode:04o}, {len(one.content)} bytes)"
        for one in self.outdated:
            yield f"replace {one.path} (mode {one.mode:04o}, {len(one.content)} bytes), which an earlier join wrote"
        for one in self.unchanged:
            yield f"keep {one.path}, which is as it must be"


def look(planned: Sequence[PlannedFile], record: Record, same: Callable[[PlannedFile, bytes], bool]) -> Installation:
    """Compare with what is there; raises JoinRefused for a file that is not ours. `same`: whether a content will do."""
    missing, outdated, unchanged, refused = [], [], [], []
    for one in planned:
        found = read(one.path)
        if found is None:
            missing.append(one)
        elif same(one, found):
            unchanged.append(one)
        elif record.wrote(one.path, found):
            outdated.append(one)
        elif str(one.path) in record.files:
            refused.append(f"{one.path} was edited since join wrote it, and would be written with another content")
        else:
            refused.append(f"{one.path} exists with another content, and join did not write it")
    if refused:
        raise JoinRefused(f"{'; '.join(refused)}: keep what you need of it elsewhere, remove it, and run join again")
    return Installation(tuple(missing), tuple(outdated), tuple(unchanged))


def read(path: Path) -> bytes | None:
    """Read a file; None if there is none. Raises JoinRefused if it is something else."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JoinRefused(f"{path}: cannot be read: {error.strerror}") from error


def install(installation: Installation, record: Record) -> None:
    """Write the files, each recorded before; raises OSError."""
    for one in installation.changes:
        make_folder(one.path.parent, record)
        record.files[str(one.path)] = digest(one.content)
        record.write()
        write_atomically(one.path, one.content, mode=one.mode)
        os.chmod(one.path, one.mode)  # noqa: PTH101 - whatever the umask


def lead_link(link: Path, program: Path, record: Record) -> bool:
    """Make the link to this release's program if there is none; returns whether it did."""
    if link.is_symlink():
        return False
    make_folder(link.parent, record)
    record.link = str(program)
    record.write()
    link.symlink_to(program)
    return True


def make_folder(path: Path, record: Record) -> None:
    """Make a folder and those above it, and record which; the record's own folder is private."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(made):
        one.mkdir()
        os.chmod(one, 0o700 if one == record.path.parent else 0o755)  # noqa: PTH101 - whatever the umask
        record.folders.append(str(one))
    if made:
        record.write()


def forget(path: Path, record: Record) -> None:
    """Remove a file that join wrote, and its entry; raises OSError."""
    path.unlink(missing_ok=True)
    if record.files.pop(str(path), None) is not None:
        record.write()


def remove_folders(record: Record) -> None:
    """Remove the folders that join made, if they are empty now."""
    for one in sorted(map(Path, record.folders), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            one.rmdir()
