"""Disks with a file system, made from a folder without mounting anything."""

import subprocess
from pathlib import Path
from typing import Final

LEAST_INODES: Final = 16384
INODES_PER_MIB: Final = 16
JOURNAL_MIB: Final = (4, 64)


def make_disk(disk: Path, content: Path, mebibytes: int) -> None:
    """Make a sparse disk with an ext4 file system that has the content of a folder."""
    with disk.open("wb") as file:
        file.truncate(mebibytes << 20)
    least, most = JOURNAL_MIB
    command = ["mkfs.ext4", "-q", "-N", str(max(LEAST_INODES, mebibytes * INODES_PER_MIB))]
    # nothing lazily: the guest would go on initialising after each boot
    command += ["-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", f"size={min(most, max(least, mebibytes // 64))}"]
    subprocess.run([*command, "-d", content, disk], check=True, capture_output=True)
