"""Counts the disk space that a folder takes, as `du` does.

Used by the worker for volumes with a limit, in a thread, because it blocks. It counts allocated blocks, so a hole in a
file takes no space; a file with several names counts once. Links are not followed, and other file systems or mounts in
the folder are not counted (pkg/volume/util/fs/fs.go DiskUsage).
"""

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from activities.files.tree_walk import walk_tree

_BLOCK: Final = 512
"""Bytes of a unit of `st_blocks`, on every file system."""


class CountTimedOut(Exception):
    """Counting took too long; the message has the amount counted so far."""


class Count(NamedTuple):
    """The space and inodes of a folder."""

    used_bytes: int
    inodes: int


def used_bytes(
    folder: Path, is_enough: Callable[[int], bool], seconds: float, clock: Callable[[], float] = monotonic
) -> int:
    """Count until everything is counted or `is_enough`; a missing folder takes nothing.

    Raises CountTimedOut after `seconds`, OSError, TreeMoved.
    """
    return _counted(folder, is_enough, seconds, clock).used_bytes


def count_files(folder: Path, seconds: float) -> Count:
    """Count the space and inodes of a folder; raises as `used_bytes` does."""
    return _counted(folder, lambda _: False, seconds, monotonic)


def _counted(folder: Path, is_enough: Callable[[int], bool], seconds: float, clock: Callable[[], float]) -> Count:
    total, inodes, until = 0, 0, clock() + seconds
    seen: set[tuple[int, int]] = set()
    try:
        device = folder.lstat().st_dev
    except FileNotFoundError:
        return Count(0, 0)
    with contextlib.closing(walk_tree(folder)) as visits:
        for visit in visits:
            found = visit.found
            if visit.is_foreign or found.st_dev != device:
                continue
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                if (found.st_dev, found.st_ino) in seen:
                    continue
                seen.add((found.st_dev, found.st_ino))
            total += found.st_blocks * _BLOCK
            inodes += 1
            if is_enough(total):
                return Count(total, inodes)
            if clock() > until:
                raise CountTimedOut(f"not counted in {seconds:.0f} s: {total} bytes and more")
    return Count(total, inodes)
