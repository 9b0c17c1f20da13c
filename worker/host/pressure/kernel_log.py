"""The kernel's log, /dev/kmsg, one record after the other, without blocking.

Whoever floods the log costs this process little: at most a batch is read at a time, and what was overwritten meanwhile is passed over.
"""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

from workflows.decide.node.oom_kills import LONGEST_RECORD

KMSG: Final = Path("/dev/kmsg")
_DEVICE: Final = os.makedev(1, 11)
BATCH: Final = 64
"""Records that are read without a pause."""
PAUSE: Final = 0.05
"""Seconds after a batch that was not the end of the log."""

GATHERED: Final = 2.0
"""Seconds in which new records gather: a machine whose pods come and go writes several a second, each for itself."""

Read = Callable[[int, int], bytes]


def open_kernel_log(path: Path = KMSG) -> int:
    """Open it, at its oldest record; raises OSError where it is missing, may not be read, or is something else (containers link it to their console)."""
    log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    found = os.fstat(log)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == _DEVICE:
        return log
    os.close(log)
    raise OSError(errno.ENODEV, "this is not the kernel's log", str(path))


async def records(log: int, read: Read = os.read) -> AsyncGenerator[bytes, None]:
    """Yield each record, and wait for new ones; ends only if the log does. Raises OSError."""
    loop, more = asyncio.get_running_loop(), asyncio.Event()
    while True:
        for _ in range(BATCH):
            try:
                record = read(log, LONGEST_RECORD)
            except BrokenPipeError:  # records were overwritten before they were read; the next read goes on behind them
                continue
            except BlockingIOError:
                more.clear()
                loop.add_reader(log, more.set)
                try:
                    await more.wait()
                finally:
                    loop.remove_reader(log)
                await asyncio.sleep(GATHERED)
                break
            if not record:
                return
            yield record
        else:
            await asyncio.sleep(PAUSE)
