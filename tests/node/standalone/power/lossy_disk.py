"""A disk that loses, at a moment of the test's choice, what no program has flushed: ext4 on a loop device, shut down without its journal.

FS_IOC_SHUTDOWN is what the kernel's own file system tests cut the power with. All later writes fail, and the next mount replays what the
journal had on the device by then.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

from tests.waiting import wait_until

FS_IOC_SHUTDOWN: Final = 0x8004587D  # linux/fs.h: _IOR('X', 125, __u32)
NO_LOG_FLUSH: Final = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH
SIZE: Final = 2 << 30


class NoDisk(Exception):
    """This machine makes no such disk; the message says why."""


class LossyDisk:
    """One disk with the content of a folder. A machine mounts it by `mounting`, in a mount namespace of its own.

    A namespace that another test makes meanwhile would keep what is mounted here, and with it the file system that was shut down.
    """

    def __init__(self, image: Path, folder: Path) -> None:
        """Move the content of `folder`, where it is mounted later, to the disk; raises NoDisk."""
        self.at = folder
        self._image = image
        with image.open("wb") as file:
            file.truncate(SIZE)
        _run("mkfs.ext4", "-q", "-d", str(folder), str(image))
        shutil.rmtree(folder)
        folder.mkdir()

    @property
    def mounting(self) -> str:
        """The command line that mounts it."""
        return f"mount -o loop {self._image} {self.at}"

    def cut(self, pid: int) -> None:
        """Cut the power; `pid`: a process that mounts it. Before it has done so there is nothing to lose, and the folder is of this machine's own disk."""
        folder = os.open(f"/proc/{pid}/root{self.at}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(folder).st_dev == self.at.stat().st_dev:
                return
            fcntl.ioctl(folder, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def until_free(self) -> None:
        """Wait until nobody has it: the next mount would be of what was shut down."""
        wait_until(lambda: _run("losetup", "--associated", str(self._image)) == "", f"nobody to have {self._image}")


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoDisk(f"{' '.join(command)}: {error}") from error
