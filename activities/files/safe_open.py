"""Opens a path below a root without ever leaving it, whatever a container does to the files meanwhile.

Used by `subpaths`, and without creating anything by `env_files`. A container may replace a directory by a symbolic
link at any moment, so the kernel is never given a path of more than one part: each part is opened relative to its
parent's descriptor without following links. A link is read and walked by the same rules, and `..` leads back to a
descriptor that is already open. So what is opened is what was checked. The kubelet resolves the path first and opens
the result without following links (subpath_linux.go doSafeOpen, doSafeMakeDir). openat2(2) with RESOLVE_BENEATH would
be one call, but it refuses absolute links into the volume, which the kubelet accepts, and old kernels lack it; this
walk costs 30 µs.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PATH: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = _PATH | os.O_DIRECTORY
_MADE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS: Final = 40
"""The most links in a path, as in the kernel."""
_LONGEST: Final = 4096
"""Bytes of a path, as in the kernel (PATH_MAX)."""
_DEEPEST: Final = _LONGEST // 2
"""The most nested folders, as many as such a path can name.

Each is held open, and links could lead down 80,000 of them.
"""


class PathEscapesRoot(OSError):
    """A link in the path leads out of the root."""


class NotMade(OSError):
    """A directory of the path could not be created."""


@contextmanager
def open_beneath(base: Path, path: str, *, make: bool = True) -> Iterator[int]:
    """Open a path below `base` as an O_PATH descriptor, creating missing directories with the mode of `base`.

    `base` itself is trusted and followed. Raises PathEscapesRoot, NotMade or OSError.
    """
    walk = _Walk(base)
    try:
        walk.go(path, make=make)
        yield walk.opened[-1]
    finally:
        walk.close()


class _Walk:
    """The state of a walk: the descriptors from the root down."""

    def __init__(self, base: Path) -> None:
        self.opened = [os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._real = str(Path(f"/proc/self/fd/{self.opened[0]}").readlink())
        self._mode = stat.S_IMODE(os.fstat(self.opened[0]).st_mode)
        self._links = 0

    def close(self) -> None:
        """Close all descriptors."""
        while self.opened:
            os.close(self.opened.pop())

    def go(self, path: str, *, make: bool = True) -> None:
        """Walk down a path; parts from a link's text are not created."""
        if len(os.fsencode(path)) > _LONGEST:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        pending = deque((part, make) for part in _parts(path))
        while pending:
            if len(self.opened) > _DEEPEST:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            part, may_make = pending.popleft()
            if part == "..":
                self._up(path)
                continue
            try:
                found = self._open(part)
            except FileNotFoundError:
                if not may_make:
                    raise
                if self._make(part):
                    continue
                found = self._open(part)
            if stat.S_ISLNK(os.fstat(found).st_mode):
                pending.extendleft((one, False) for one in reversed(self._link(found, path)))
            else:
                self.opened.append(found)

    def _open(self, part: str) -> int:
        """Open one part, first as a directory, which lets an automounter mount there."""
        try:
            return os.open(part, _DIRECTORY, dir_fd=self.opened[-1])
        except NotADirectoryError:
            return os.open(part, _PATH, dir_fd=self.opened[-1])

    def _make(self, part: str) -> bool:
        """Create a directory with exactly this mode and enter it; False if it has just been created by another."""
        try:
            os.mkdir(part, self._mode, dir_fd=self.opened[-1])
            self.opened.append(os.open(part, _MADE, dir_fd=self.opened[-1]))
            os.fchmod(self.opened[-1], self._mode)
        except FileExistsError:  # another container with the same path is being started, of this pod or another
            return False
        except OSError as error:
            raise NotMade(error.errno, error.strerror, part) from error
        return True

    def _link(self, link: int, path: str) -> list[str]:
        """Read a link's parts, return to the root for an absolute one, and close it."""
        try:
            text = os.readlink("", dir_fd=link)
        finally:
            os.close(link)
        self._links += 1
        if self._links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if not text.startswith("/"):
            return _parts(text)
        top = _parts(self._real)
        parts = _parts(text)
        if parts[: len(top)] != top:
            raise PathEscapesRoot(errno.EXDEV, f"a link leads to {text}, out of the volume", path)
        while len(self.opened) > 1:
            os.close(self.opened.pop())
        return parts[len(top) :]

    def _up(self, path: str) -> None:
        if len(self.opened) == 1:
            raise PathEscapesRoot(errno.EXDEV, "it leads above the volume", path)
        os.close(self.opened.pop())


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
