"""Rotates one container's log: renames the full file, and has the runtime start a new one.

Called by the worker's loop (`worker/host/log_rotation.py`). Names, order and numbers are the kubelet's
(pkg/kubelet/logs/container_log_manager.go), so that log agents know them: `0.log` -> `0.log.20261121-120410`, which
the next rotation compresses to `….gz`; the oldest are removed. Every step can be repeated: a crash leaves a temporary
file, which the next rotation removes, or no log file, which the next round has the runtime reopen.
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
"""The log itself and the newest rotated one, besides the older ones."""


@dataclass(frozen=True, slots=True)
class LogRotation:
    """When a log is rotated and how much is kept; the names are KubeletConfiguration's."""

    max_size: int
    """Bytes."""
    max_files: int
    """At least 2: the log and the newest rotated one."""


def split_unused(names: list[str]) -> tuple[list[str], list[str]]:
    """Separate rotated logs, oldest first, from files that an interrupted rotation left."""
    compressed = {name for name in names if name.endswith(COMPRESSED)}
    used = [
        name
        for name in sorted(names)
        if name in compressed or not (name.endswith(TEMPORARY) or f"{name}{COMPRESSED}" in compressed)
    ]
    return used, sorted(set(names) - set(used))


async def rotate(log: ContainerLog, container_id: str, rules: LogRotation, runtime: RuntimeClient) -> None:
    """Rotate a log that has reached its size; raises OSError or CriError, and then the log has its old name."""
    rotated = await asyncio.to_thread(_move, log, rules)
    if not rotated:
        return
    try:
        await runtime.reopen_container_log(container_id)
    except BaseException:
        await asyncio.to_thread(_move_back, log, rotated)
        raise


async def reopen_missing(log: ContainerLog, container_id: str, runtime: RuntimeClient) -> None:
    """Have the runtime create a log file that is missing; raises CriError, or OSError if it is still missing."""
    await runtime.reopen_container_log(container_id)
    await asyncio.to_thread(_look, log)


def _look(log: ContainerLog) -> None:
    with log.folder() as folder:
        status_of(folder, log.name)


def _move(log: ContainerLog, rules: LogRotation, now: datetime | None = None) -> str:
    """Remove the oldest, compress, and rename the log; returns its new name, empty if that exists already."""
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
            return ""  # twice within a second: rotated in the next round
        os.rename(log.name, new, src_dir_fd=folder, dst_dir_fd=folder)
        return new


def _move_back(log: ContainerLog, rotated: str) -> None:
    """Restore a log's name if the runtime has not started a new one; raises OSError."""
    with log.folder() as folder, suppress(FileExistsError, FileNotFoundError):
        os.link(rotated, log.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(rotated, dir_fd=folder)


def compress(folder: int, name: str) -> None:
    """Replace a rotated log by its compressed copy with the same mode; raises OSError, also ForeignFile."""
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
    """Compress a rotated log; a link of that name is removed, or it would block every rotation."""
    try:
        compress(folder, name)
    except ForeignFile:
        _remove(folder, name)


def _remove(folder: int, name: str) -> None:
    """Remove a name from the folder, of a link the link itself; a missing one is fine."""
    with suppress(FileNotFoundError, IsADirectoryError):  # a folder of such a name is not a log
        os.unlink(name, dir_fd=folder)
