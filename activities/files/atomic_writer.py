"""Replaces all files of a volume atomically: a reader sees the old ones or the new ones, never a mixture.

Used for configMap, secret, downwardAPI and projected, in a thread and under the pod's lock. The layout is that of
pkg/volume/util/atomic_writer.go, which programs rely on: the files are in a folder named by a timestamp, the link
`..data` points to that folder and is replaced by a rename, and users see links through `..data`. It may crash
anywhere: the next call reads what is there and leaves nothing of an earlier try. The kubelet is less thorough: after a
crash at the wrong moment its `..data_tmp` makes every later write fail, a removed key stays visible, and an old folder
with an old secret stays for the pod's life.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from posixpath import normpath
from typing import Final

from activities.files.file_trees import remove_tree

DATA: Final = "..data"
_NEXT_DATA: Final = "..data_tmp"
_FOLDER_MODE: Final = 0o755
_LONGEST_NAME: Final = 255  # bytes
_LONGEST_PATH: Final = 4096
_GROUP_READS: Final = 0o440
_GROUP_ENTERS: Final = 0o110
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class InvalidPath(Exception):
    """A path that no file of a volume can have; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class ProjectedFile:
    """A file of a volume."""

    data: bytes = field(repr=False)
    mode: int
    """Permission bits; the umask is not applied."""
    owner: int | None = None
    """The user who owns it; None: root."""


def write(directory: Path, files: Mapping[str, ProjectedFile], group: int | None = None) -> bool:
    """Make these the files of a volume; returns whether anything changed.

    `files` has paths relative to the volume. If nothing changed, no file is touched, but missing links are made.
    `group` is the pod's fsGroup: it owns everything and can read it (pkg/volume/volume_linux.go). Raises InvalidPath
    before anything is changed, and OSError.
    """
    wanted = {checked_path(path): content for path, content in files.items()}
    _refuse_files_as_folders(wanted)
    current = _current(directory)
    changed = current is None or _contents(current) != {path: content.data for path, content in wanted.items()}
    _remove_folders(directory, current)  # of interrupted tries, so that they do not pile up
    if changed:
        fresh = _write_folder(directory, wanted, group)
        _own(directory, group)
        _swap(directory, fresh)
        _remove_folders(directory, fresh)
    _link(directory, wanted)
    _remove_links(directory, wanted)
    return changed


def checked_path(path: str) -> str:
    """Return a path in its shortest form; raises InvalidPath (validatePath)."""
    if not path:
        raise InvalidPath('invalid path: must not be empty: ""')
    if path.startswith("/"):
        raise InvalidPath(f"invalid path: must be relative path: {path[:_LONGEST_NAME]}")
    if len(path.encode()) > _LONGEST_PATH:
        raise InvalidPath(f"invalid path: must be less than or equal to {_LONGEST_PATH} characters")
    items = path.split("/")
    if ".." in items:
        raise InvalidPath(f"invalid path: must not contain '..': {path[:_LONGEST_NAME]}")
    if any(len(item.encode()) > _LONGEST_NAME for item in items):
        raise InvalidPath(f"invalid path: filenames must be less than or equal to {_LONGEST_NAME} characters")
    clean = normpath(path)
    if clean.startswith(".."):  # reserved for the kubelet's layout; in the kubelet `./..x` slips through
        raise InvalidPath(f"invalid path: must not start with '..': {path[:_LONGEST_NAME]}")
    if clean == "." or "\0" in path:
        raise InvalidPath(f"invalid path: names no file: {path[:_LONGEST_NAME]!r}")
    return clean


def _refuse_files_as_folders(files: Mapping[str, ProjectedFile]) -> None:
    """Refuse a path through another file. The kernel's error would name a temporary folder."""
    for path in files:
        for end in (index for index, letter in enumerate(path) if letter == "/"):
            if path[:end] in files:
                raise InvalidPath(
                    f"invalid path: {path[:_LONGEST_NAME]} lies below {path[:end][:_LONGEST_NAME]}, a file"
                )


def _current(directory: Path) -> Path | None:
    """Return the folder that is shown now; None if there is none, or the link leads elsewhere."""
    try:
        name = os.readlink(directory / DATA)  # noqa: PTH115 - the text as it stands
    except FileNotFoundError:
        return None
    folder = directory / name
    return folder if _is_ours(name) and folder.is_dir() and not folder.is_symlink() else None


def _is_ours(name: str) -> bool:
    """Report whether it is the name of a folder of files: two dots and a timestamp."""
    return name.startswith("..") and len(name) > 2 and "/" not in name and name not in {DATA, _NEXT_DATA}


def _contents(folder: Path) -> dict[str, bytes | None]:
    """Read all files of a folder; None for anything that this module does not write, which counts as a change."""
    found: dict[str, bytes | None] = {}
    for place, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = Path(place) / name
            if path.is_dir() and not path.is_symlink():
                continue
            found[str(path.relative_to(folder))] = _content(path)
    return found


def _content(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _write_folder(directory: Path, files: Mapping[str, ProjectedFile], group: int | None) -> Path:
    """Write all files into a new folder that is not visible yet."""
    stamp = datetime.now(UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    fresh = Path(tempfile.mkdtemp(prefix=stamp, dir=directory))
    fresh.chmod(_FOLDER_MODE)
    _own(fresh, group)
    for path, content in files.items():
        *folders, _ = Path(path).parts
        below = fresh
        for name in folders:
            below = below / name
            if not below.is_dir():
                below.mkdir()
                below.chmod(_FOLDER_MODE)
                _own(below, group)
        descriptor = os.open(fresh / path, _CREATE, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.data)
            if group is not None or content.owner is not None:
                os.fchown(descriptor, _unless_none(content.owner), _unless_none(group))
            os.fchmod(descriptor, content.mode | (0 if group is None else _GROUP_READS))
    return fresh


def _unless_none(number: int | None) -> int:
    """Return -1, which leaves the owner unchanged, for None."""
    return -1 if number is None else number


def _own(folder: Path, group: int | None) -> None:
    """Give a folder to the pod's group, with the set-group-ID bit for what is created in it later."""
    if group is None:
        return
    os.chown(folder, -1, group, follow_symlinks=False)
    mode = stat.S_IMODE(folder.stat(follow_symlinks=False).st_mode)
    folder.chmod(mode | stat.S_ISGID | _GROUP_READS | _GROUP_ENTERS)


def _swap(directory: Path, fresh: Path) -> None:
    """Switch `..data` to the new folder atomically."""
    following = directory / _NEXT_DATA
    following.symlink_to(fresh.name)
    following.rename(directory / DATA)


def _link(directory: Path, files: Mapping[str, ProjectedFile]) -> None:
    """Make the links that users see; existing ones stay, also a folder on which another volume is mounted."""
    for name in {path.partition("/")[0] for path in files}:
        with contextlib.suppress(FileExistsError):
            (directory / name).symlink_to(f"{DATA}/{name}")


def _remove_folders(directory: Path, shown: Path | None) -> None:
    """Remove every folder of files but the one that is shown."""
    (directory / _NEXT_DATA).unlink(missing_ok=True)
    for name in os.listdir(directory):  # noqa: PTH208 - names are what is asked for
        if _is_ours(name) and directory / name != shown:
            remove_tree(directory / name)


def _remove_links(directory: Path, files: Mapping[str, ProjectedFile]) -> None:
    """Remove the links of removed files; anything else in a volume is not ours."""
    shown = {path.partition("/")[0] for path in files}
    for name in os.listdir(directory):  # noqa: PTH208 - names are what is asked for
        if name not in shown and _leads_to_data(directory / name):
            (directory / name).unlink(missing_ok=True)


def _leads_to_data(path: Path) -> bool:
    try:
        return os.readlink(path) == f"{DATA}/{path.name}"  # noqa: PTH115 - the text as it stands
    except OSError:
        return False
