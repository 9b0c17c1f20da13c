"""The kernel's mounts: mount, unmount and look up.

The only code that makes these system calls. Every call may block as long as the server of a file system does not
answer, so call them in threads; what may hang without end (a network file system) is mounted by a program with a
deadline instead. Errors are the kernel's OSError with the mount point as path. Source: mount(2), umount2(2),
proc_pid_mountinfo(5).
"""

import ctypes
import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import Final

from activities.files.selinux import selinux_enabled


class MountFlag(IntFlag):
    """Flags of mount(2), besides a file system's own options (linux/mount.h)."""

    READ_ONLY = 0x1
    NO_SUID = 0x2
    NO_DEV = 0x4
    NO_EXEC = 0x8
    SYNCHRONOUS = 0x10
    REMOUNT = 0x20
    NO_ATIME = 0x400
    NO_DIR_ATIME = 0x800
    BIND = 0x1000
    RECURSIVE = 0x4000
    PRIVATE = 0x4_0000
    SLAVE = 0x8_0000
    SHARED = 0x10_0000
    REL_ATIME = 0x20_0000


_DETACH: Final = 0x2
_NO_FOLLOW: Final = 0x8
_ST_REL_ATIME: Final = 0x1000
_KEPT: Final = (
    MountFlag.NO_SUID
    | MountFlag.NO_DEV
    | MountFlag.NO_EXEC
    | MountFlag.SYNCHRONOUS
    | MountFlag.NO_ATIME
    | MountFlag.NO_DIR_ATIME
)
"""Flags that statvfs(3) reports with the numbers of mount(2)."""
_LABELS: Final = "seclabel"
_TABLE: Final = Path("/proc/self/mountinfo")
_MOUNT_ID: Final = re.compile(r"^mnt_id:\s*(\d+)$", re.MULTILINE)
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_LAYERS: Final = 64
"""The most mounts on one point that are unmounted; more come only from something that mounts in a loop."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the mount table."""

    mount_id: int
    device: str
    """`major:minor` of its file system."""
    root: str
    """The folder (or file) of its file system that is visible here."""
    point: str
    options: tuple[str, ...]
    """Of this mount: `ro`, `nosuid` …"""
    kind: str
    """The file system's type: tmpfs, ext4 …"""
    source: str
    super_options: tuple[str, ...]
    """Of the file system itself: `size=1024k` …"""


def mount(source: str, target: Path, kind: str = "", flags: int = 0, *, options: Sequence[str] = ()) -> None:
    """Mount, also on top of an existing mount; options are the file system's own. Raises OSError."""
    current = (
        _word(source),
        _word(target),
        _word(kind) or None,
        ctypes.c_ulong(flags),
        _word(",".join(options)) or None,
    )
    if _libc.mount(*current) != 0:
        raise _refused(target)


def bind(source: Path, target: Path, *, read_only: bool = False, recursive: bool = False) -> None:
    """Bind-mount a folder or file. The source's link is followed, as /proc/self/fd needs. Raises OSError."""
    mount(str(source), target, flags=MountFlag.BIND | (MountFlag.RECURSIVE if recursive else 0))
    if not read_only:
        return
    try:
        make_read_only(target)
    except OSError:
        unmount(target)
        raise


def make_read_only(target: Path) -> None:
    """Make a mount read-only at this point; its other flags stay. Raises OSError."""
    current = os.statvfs(target).f_flag
    preserved = (current & _KEPT) | (MountFlag.REL_ATIME if current & _ST_REL_ATIME else 0)
    mount("", target, flags=MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY | preserved)


def unmount(target: Path, *, detach: bool = False) -> bool:
    """Unmount every mount on a point; returns whether there was one. A link in its place is never followed.

    Raises OSError, with EBUSY while it is in use. `detach` makes it invisible and lets the kernel unmount it when it
    is no longer used, which hides that it is busy.
    """
    flags = _NO_FOLLOW | (_DETACH if detach else 0)
    for layer in range(_LAYERS):
        if _libc.umount2(_word(target), flags) != 0:
            if ctypes.get_errno() in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                return layer > 0
            raise _refused(target)
    return True


def mount_table() -> tuple[Mount, ...]:
    """Read the mounts that this process sees, in mount order."""
    return tuple(_read_line(line) for line in _lines())


def mounts_below(directory: Path) -> list[str]:
    """List the mount points at or below a folder, the deepest first; a point with two mounts is listed twice."""
    own = _real(directory)
    points = map(_point_of, _lines())
    return sorted((one for one in points if one == own or one.startswith(f"{own}/")), key=len, reverse=True)


def folders_with_mounts(parent: Path) -> set[str]:
    """Name the folders in a folder at or below which something is mounted; the table is read once for all of them. Raises OSError."""
    own = f"{os.path.realpath(parent).rstrip('/')}/"
    return {one.removeprefix(own).partition("/")[0] for one in map(_point_of, _lines()) if one.startswith(own)}


def mount_at(point: Path) -> Mount | None:
    """Return the topmost mount at a point; None if there is none."""
    own = _real(point)
    return next((_read_line(line) for line in reversed(_lines()) if _point_of(line) == own), None)


def labels_files(point: Path, root: Path = Path("/")) -> bool:
    """Report whether SELinux labels the files of what is mounted at a point (hostutil_linux.go GetSELinuxSupport).

    Without SELinux the table is not read.
    """
    found = mount_at(point) if selinux_enabled(root) else None
    return found is not None and _LABELS in {*found.options, *found.super_options}


def is_mount_point(path: Path) -> bool:
    """Report whether something is mounted at a path, which may be a file; a missing path is no mount point.

    Compares the mount IDs of the path and its parent, which costs far less than reading the table; the table is read
    only if the file system does not answer (a stale NFS handle).
    """
    try:
        return _mount_of(path) != _mount_of(Path(_real_parent(path)))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return mount_at(path) is not None


def mount_id(descriptor: int) -> int:
    """Return the ID of the mount of an open file. Raises OSError."""
    found = _MOUNT_ID.search(Path(f"/proc/self/fdinfo/{descriptor}").read_text())
    if found is None:
        raise OSError(f"/proc/self/fdinfo/{descriptor} names no mount; /proc of this node is not Linux's")
    return int(found[1])


def _mount_of(path: Path) -> int:
    opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return mount_id(opened)
    finally:
        os.close(opened)


def _real_parent(path: Path) -> str:
    return os.path.realpath(path.parent)


def _real(path: Path) -> str:
    """Resolve links in all but the last part, because nothing is mounted on a link itself."""
    return f"{_real_parent(path).rstrip('/')}/{path.name}"


def _lines() -> list[bytes]:
    return _TABLE.read_bytes().splitlines()


def _point_of(line: bytes) -> str:
    """Return the mount point of a line. Only that is parsed first: a node of a hundred pods has a thousand lines."""
    return _unescaped(line.split(b" ", 5)[4])


def _read_line(line: bytes) -> Mount:
    before, _, after = line.partition(b" - ")
    number, _, device, root, point, options, *_ = map(_unescaped, before.split(b" "))
    kind, source, super_options = map(_unescaped, [*after.split(b" "), b"", b""][:3])
    return Mount(
        mount_id=int(number),
        device=device,
        root=root,
        point=point,
        options=tuple(options.split(",")),
        kind=kind,
        source=source,
        super_options=tuple(super_options.split(",")),
    )


def _unescaped(field: bytes) -> str:
    """Decode a field: the kernel writes spaces, tabs, line ends and backslashes as octal numbers."""
    if b"\\" not in field:
        return os.fsdecode(field)
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))


def _word(text: str | Path) -> bytes:
    """Encode a string for the kernel, which would cut it at its first NUL. Raises OSError."""
    word = os.fsencode(text)
    if b"\0" in word:
        raise OSError(errno.EINVAL, "a NUL in what is to be mounted", str(text))
    return word


def _refused(target: Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(target))
