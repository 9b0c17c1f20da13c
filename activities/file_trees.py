"""Remove a directory tree as root without leaving it.

A pod can plant symbolic links in its volumes and logs, and a volume may still be mounted below. So links are removed,
never followed; every directory is opened relative to its parent's descriptor; and a directory on another mount ends the
removal with an error before anything in it is touched (kubernetes/kubernetes#38498: data lost through a mount).
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from activities.mounts import mount_id, mounts_below

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROUNDS: Final = 5


class StillMounted(Exception):
    """A mount lies in the tree; nothing behind it was touched."""

    def __init__(self, mount: str) -> None:
        self.mount = mount
        super().__init__(f"{mount} is still mounted; unmount it, then the removal goes on by itself")


def remove_tree(directory: Path) -> None:
    """Remove a directory and all below it; one that is gone is removed, a link in its place is only unlinked.

    A file that is made meanwhile (the node's cache of the pod) is removed as well. Raises StillMounted and OSError.
    """
    if mounts := mounts_below(directory):
        raise StillMounted(mounts[0])
    try:
        parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        for left in reversed(range(_ROUNDS)):
            try:
                _remove_entry(parent, directory.name, str(directory))
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or left == 0:
                    raise
    finally:
        os.close(parent)


def _remove_entry(parent: int, name: str, shown: str) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=parent)
            return
        opened = os.open(name, _FLAGS, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        if mount_id(opened) != mount_id(parent):
            raise StillMounted(shown)
        for child in os.listdir(opened):  # noqa: PTH208 -- by descriptor, not by path
            _remove_entry(opened, child, f"{shown}/{child}")
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=parent)
