"""Walks a directory tree as root without leaving it, whatever its owner has put there.

Used by file_trees, which removes, and by volumes, which change groups. Links are visited, never followed; every
directory is opened relative to its parent's descriptor; a directory on another mount is visited but not entered. Only
one descriptor is open, however deep the tree is: the way back is `..`, which must lead to the directory that the walk
came from.
"""

import os
import stat
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.files.mounts import mount_id

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_SHOWN: Final = 20
"""Parts of a path; of a longer one the end is shown."""


class TreeMoved(OSError):
    """Directories were moved during the walk; the next one starts again."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One file or directory of a tree; a directory comes after its content."""

    parent: int
    """The descriptor of its directory, open until the next visit."""
    name: str
    found: os.stat_result
    """Its own status; for a link, not the target's."""
    path: str
    """For messages."""
    is_foreign: bool = False
    """It is a directory on another mount and was not entered."""


@dataclass(slots=True)
class _Level:
    name: str
    found: os.stat_result
    left: list[str]


def walk_tree(root: Path) -> Generator[Visit, None, None]:
    """Visit everything in a tree and then its root; files that vanish meanwhile are skipped.

    Close it if it is not consumed to its end. Raises OSError, TreeMoved.
    """
    try:
        here = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    levels = [_Level(str(root.parent), os.fstat(here), [root.name])]
    mount = mount_id(here)
    try:
        while levels:
            if levels[-1].left:
                name = levels[-1].left.pop()
                if (entered := _enter(here, name, levels, mount, is_root=len(levels) == 1)) is None:
                    continue
                if isinstance(entered, Visit):
                    yield entered
                    continue
                os.close(here)
                here = entered
                if len(levels) == 2:
                    mount = mount_id(here)
            elif len(levels) == 1:
                return
            else:
                done = levels.pop()
                here = _leave(here, levels)
                yield Visit(here, done.name, done.found, _shown(levels, done.name))
    finally:
        os.close(here)


def _enter(here: int, name: str, levels: list[_Level], mount: int, *, is_root: bool) -> Visit | int | None:
    """Open a directory and return it, or whatever has replaced it; None if it has vanished."""
    try:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            return Visit(here, name, found, _shown(levels, name))
        opened = os.open(name, _FLAGS, dir_fd=here)
    except FileNotFoundError:
        return None
    try:
        if not is_root and mount_id(opened) != mount:
            os.close(opened)
            return Visit(here, name, found, _shown(levels, name), is_foreign=True)
        levels.append(_Level(name, os.fstat(opened), os.listdir(opened)))  # noqa: PTH208 -- by descriptor, not by path
    except BaseException:
        os.close(opened)
        raise
    return opened


def _leave(here: int, levels: list[_Level]) -> int:
    """Return to the directory that the walk came from."""
    parent = os.open("..", _FLAGS, dir_fd=here)
    found, expected = os.fstat(parent), levels[-1].found
    if (found.st_dev, found.st_ino) != (expected.st_dev, expected.st_ino):
        os.close(parent)
        raise TreeMoved(f"{_shown(levels[:-1], levels[-1].name)} was moved while it was looked through")
    os.close(here)
    return parent


def _shown(levels: list[_Level], name: str) -> str:
    names = [*(one.name for one in levels[-_LONGEST_SHOWN:]), name]
    return "/".join(names if len(levels) <= _LONGEST_SHOWN else ["…", *names])
