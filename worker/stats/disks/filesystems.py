"""Usage of the file systems that hold pods and images; statvfs blocks, so it is called in a thread."""

import os
import time
from pathlib import Path
from typing import NamedTuple

from worker.stats.cgroups.usage import read_text


class FileSystem(NamedTuple):
    """One file system at one time; bytes and counts."""

    at: float
    device_id: str
    """major:minor"""
    device: str
    capacity: int
    available: int
    """For unprivileged users."""
    used: int
    inodes: int
    inodes_free: int


def file_system_of(path: Path) -> FileSystem:
    """Read the file system that holds a folder; raises OSError."""
    found, device_id = os.statvfs(path), _device_id(path)
    return FileSystem(
        time.time(),
        device_id,
        device_name(device_id),
        found.f_frsize * found.f_blocks,
        found.f_frsize * found.f_bavail,
        found.f_frsize * (found.f_blocks - found.f_bfree),
        found.f_files,
        found.f_ffree,
    )


def device_name(device_id: str) -> str:
    """Return a block device's name in /dev, or its id if the kernel has no name for it (overlay, network)."""
    for line in read_text(f"/sys/dev/block/{device_id}/uevent").splitlines():
        if line.startswith(b"DEVNAME="):
            return f"/dev/{line.removeprefix(b'DEVNAME=').decode()}"
    return device_id


def _device_id(path: Path) -> str:
    device = path.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"
