"""Remove a directory tree as root without leaving it.

A pod can plant symbolic links in its volumes and logs, and a volume may still be mounted below. So links are removed,
never followed; every directory is opened relative to its parent's descriptor; and a directory on another mount ends the
removal with an error before anything in it is touched (kubernetes/kubernetes#38498: data lost through a mount).
"""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOUNT_ID: Final = re.compile(r"^mnt_id:\s*(\d+)$", re.MULTILINE)
_ROUNDS: Final = 5
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


class StillMounted(Exception):
    """A mount lies in the tree; nothing behind it was touched."""

    def __init__(self, mount: str) -> None:
        self.mount = mount
        super().__init__(f"{mount} is still mounted; unmount it, then the removal goes on by itself")


def mounts_below(directory: Path) -> list[str]:
    """List the mount points at or below a directory, deepest first, in this process's mount table."""
    own = os.path.realpath(directory.parent) + "/" + directory.name
    points = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), line.split()[4])
        if point == own or point.startswith(f"{own}/"):
            points.append(point)
    return sorted(points, key=len, reverse=True)


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
        if _mount_id(opened) != _mount_id(parent):
            raise StillMounted(shown)
        for child in os.listdir(opened):  # noqa: PTH208 -- by descriptor, not by path
            _remove_entry(opened, child, f"{shown}/{child}")
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=parent)


def _mount_id(descriptor: int) -> str:
    found = _MOUNT_ID.search(Path(f"/proc/self/fdinfo/{descriptor}").read_text())
    if found is None:
        raise OSError(f"/proc/self/fdinfo/{descriptor} names no mount; /proc of this node is not Linux's")
    return found[1]
