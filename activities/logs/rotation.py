"""The rotation of one container's log: what is full gets a name with its time, and the runtime begins a new file.

Asked by the worker's loop (`worker/host/log_rotation.py`) for a log that has reached its size. Names, order and numbers are
the kubelet's (pkg/kubelet/logs/container_log_manager.go), so that log agents know them: `0.log` -> `0.log.20261121-120410`,
which the next rotation compresses to `….gz`; the oldest go. Every step can be repeated: a worker that dies halfway leaves a
temporary file, which the next rotation removes, or a log without its name, which the next look has reopened.
"""

import asyncio
import gzip
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from activities.clients.runtime import RuntimeClient
from activities.logs.log_files import ContainerLog, ForeignFile, names_in, open_log, status_of

COMPRESSED: Final = ".gz"
TEMPORARY: Final = ".tmp"
_TIME: Final = "%Y%m%d-%H%M%S"
_LATEST: Final = 2
"""The log itself and the one that it becomes stay beside the older ones."""


@dataclass(frozen=True, slots=True)
class LogRotation:
    """When a log is rotated and what stays of it; the names are KubeletConfiguration's."""

    max_size: int
    """Bytes."""
    max_files: int
    """At least 2: the log and the one before it."""


def split_unused(names: list[str]) -> tuple[list[str], list[str]]:
    """Part rotated logs into those in use, oldest first, and what an earlier rotation left halfway."""
    compressed = {name for name in names if name.endswith(COMPRESSED)}
    used = [
        name
        for name in sorted(names)
        if name in compressed or not (name.endswith(TEMPORARY) or f"{name}{COMPRESSED}" in compressed)
    ]
    return used, sorted(set(names) - set(used))


async def rotate(log: ContainerLog, container_id: str, rules: LogRotation, runtime: RuntimeClient) -> None:
    """Rotate a log that has reached its size; raises OSError, CriError (its name is then what it was)."""
    rotated = await asyncio.to_thread(_move, log, rules)
    if not rotated:
        return
    try:
        await runtime.reopen_container_log(container_id)
    except BaseException:
        await asyncio.to_thread(_move_back, log, rotated)
        raise


async def reopen_missing(log: ContainerLog, container_id: str, runtime: RuntimeClient) -> None:
    """Have the runtime begin a log file that is not there; raises CriError, OSError when it still is not."""
    await runtime.reopen_container_log(container_id)
    await asyncio.to_thread(_look, log)


def _look(log: ContainerLog) -> None:
    with log.folder() as folder:
        status_of(folder, log.name)


def _move(log: ContainerLog, rules: LogRotation, now: datetime | None = None) -> str:
    """Make room, compress what is not, and rename the log; answers its new name, none when that is taken already."""
    with log.folder() as folder:
        status_of(folder, log.name)
        names = [name for name in names_in(folder) if name.startswith(f"{log.name}.")]
        used, unused = split_unused(names)
        excess = max(0, len(used) - max(0, rules.max_files - _LATEST))
        for name in (*unused, *used[:excess]):
            _remove(folder, name)
        for name in used[excess:]:
            if not name.endswith(COMPRESSED):
                _compress_or_remove(folder, name)
        new = f"{log.name}.{now or datetime.now():{_TIME}}"  # noqa: DTZ005 -- the kubelet's names are in the node's time
        taken = names_in(folder)
        if new in taken or f"{new}{COMPRESSED}" in taken:
            return ""  # twice within a second: the next look rotates it
        os.rename(log.name, new, src_dir_fd=folder, dst_dir_fd=folder)
        return new


def _move_back(log: ContainerLog, rotated: str) -> None:
    """Give a log its name back where the runtime has not begun a new one; raises OSError."""
    with log.folder() as folder, suppress(FileExistsError, FileNotFoundError):
        os.link(rotated, log.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(rotated, dir_fd=folder)


def compress(folder: int, name: str) -> None:
    """Replace a rotated log by its compressed copy, of the same mode; raises OSError, ForeignFile untouched."""
    temporary = f"{name}{TEMPORARY}"
    try:
        with open_log(folder, name) as source:
            mode = os.fstat(source.fileno()).st_mode & 0o777
            _remove(folder, temporary)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, mode, dir_fd=folder), "wb") as target:
                os.fchmod(target.fileno(), mode)
                with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=target) as packed:
                    shutil.copyfileobj(source, packed, 1 << 16)
        os.rename(temporary, f"{name}{COMPRESSED}", src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            _remove(folder, temporary)
        raise
    _remove(folder, name)


def _compress_or_remove(folder: int, name: str) -> None:
    """Compress a rotated log; a link with such a name is itself removed, or it would hold up every rotation."""
    try:
        compress(folder, name)
    except ForeignFile:
        _remove(folder, name)


def _remove(folder: int, name: str) -> None:
    """Remove a name from the folder; of a link the link, and what is gone is removed."""
    with suppress(FileNotFoundError, IsADirectoryError):  # a folder of such a name is nobody's log
        os.unlink(name, dir_fd=folder)
