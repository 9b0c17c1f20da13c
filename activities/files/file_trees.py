"""Removes a directory tree as root without leaving it.

A pod can create symbolic links in its volumes and logs, and a volume may still be mounted below. So links are removed
and never followed (`tree_walk`), and a mount ends the removal with an error before anything in it is touched
(kubernetes/kubernetes#38498: data lost through a mount).
"""

import errno
import os
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from activities.files.mounts import mounts_below
from activities.files.tree_walk import Visit, walk_tree

_ROUNDS: Final = 5


class StillMounted(Exception):
    """There is a mount in the tree; nothing in it was touched."""

    def __init__(self, mount: str) -> None:
        self.mount = mount
        super().__init__(f"{mount} is still mounted; unmount it, and the removal continues by itself")


def remove_tree(directory: Path) -> None:
    """Remove a directory and everything below it; a missing one is fine, a link in its place is only unlinked.

    A file created meanwhile (the node's cache of the pod) is removed as well. Raises StillMounted and OSError.
    """
    for left in reversed(range(_ROUNDS)):
        if mounts := mounts_below(directory):
            raise StillMounted(mounts[0])
        try:
            with closing(walk_tree(directory)) as visits:
                for visit in visits:
                    _remove(visit)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or left == 0:
                raise


def _remove(visit: Visit) -> None:
    if visit.is_foreign:
        raise StillMounted(visit.path)
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(visit.found.st_mode):
            os.rmdir(visit.name, dir_fd=visit.parent)
        else:
            os.unlink(visit.name, dir_fd=visit.parent)
