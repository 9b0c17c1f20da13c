"""Opens files and folders below the node's log folder, and nothing else.

Links are followed as long as they stay below it (`/var/log/containers` consists of links; the kubelet follows them anywhere).
The resolved path is then opened one component at a time without following links, so it cannot be swapped in between. Only
regular files and folders: opening a device has side effects, and a FIFO has no end.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NODE_LOGS: Final = Path("/var/log")
_PART: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class NotServed(Exception):
    """The path exists but is not served: it leads out of the folder, or is not a file or folder."""


@dataclass(frozen=True, slots=True)
class OpenedEntry:
    """A file or folder, held open by a descriptor."""

    descriptor: int
    """O_PATH; `reopened` is a path to its content."""
    folder: bool

    @property
    def reopened(self) -> Path:
        """A path to this very file, whatever its name refers to by now."""
        return Path(f"/proc/self/fd/{self.descriptor}")


@contextlib.contextmanager
def opened_below(root: Path, path: str) -> Iterator[OpenedEntry]:
    """Open a file or folder below `root`; raises FileNotFoundError, PermissionError …, NotServed. Blocks."""
    base = os.path.realpath(root)
    wanted = os.path.realpath(os.path.join(base, path.lstrip("/")))  # noqa: PTH118 - pathlib does not resolve `..` after a missing component
    if os.path.commonpath((base, wanted)) != base:
        raise NotServed(path)
    with contextlib.ExitStack() as every:
        descriptor = _held(every, os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        for part in Path(wanted).relative_to(base).parts:
            descriptor = _held(every, os.open(part, _PART, dir_fd=descriptor))
        kind = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise NotServed(path)
        yield OpenedEntry(descriptor, stat.S_ISDIR(kind))


def _held(every: contextlib.ExitStack, descriptor: int) -> int:
    every.callback(os.close, descriptor)
    return descriptor


def list_folder(folder: OpenedEntry) -> list[str]:
    """List a folder as Go's file server does: sorted, folders with a slash."""
    with os.scandir(folder.reopened) as entries:
        return sorted(one.name + ("/" if _is_folder(one) else "") for one in entries)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
