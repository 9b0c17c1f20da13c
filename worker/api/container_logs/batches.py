"""A container's log read in threads, a batch at a time, so that the event loop never waits for a disk.

Asked by `container_logs`. A thread is taken for each batch only, and a follower that waits has none: hundreds may follow. It is
looked again after 20 ms, and after twice as long each time that nothing is new, up to half a second.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final

from activities.logs.log_files import ContainerLog
from activities.logs.reader import LogOptions, log_pieces

BATCH: Final = 128 * 1024
FIRST_WAIT: Final = 0.02
LONGEST_WAIT: Final = 0.5


async def batches(
    log: ContainerLog, options: LogOptions, running: Callable[[], bool] | None
) -> AsyncGenerator[bytes, None]:
    """Give what is asked for of a log, until its end or, with `running`, until that says no.

    The first comes as soon as the log is open; an empty one whenever there is nothing new, so that whoever sends them can look
    whether anybody is still there. Raises FileNotFoundError or another OSError, before the first.
    """
    pieces = log_pieces(log, options, running)
    wait = FIRST_WAIT

    def batch() -> tuple[bytes, bool]:
        """Read what there is, as much as a batch takes; say whether the end is reached."""
        found: list[bytes] = []
        size = 0
        for piece in pieces:
            if piece is None:
                return b"".join(found), False
            found.append(piece[1])
            size += len(piece[1])
            if size >= BATCH:
                return b"".join(found), False
        return b"".join(found), True

    try:
        while True:
            text, ended = await _finished(batch)
            yield text
            if ended:
                return
            if text:
                wait = FIRST_WAIT
            else:
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
    finally:
        pieces.close()


async def _finished(batch: Callable[[], tuple[bytes, bool]]) -> tuple[bytes, bool]:
    """Run it in a thread; cancelled, wait for its end all the same, for nobody else may touch what it reads."""
    reading = asyncio.ensure_future(asyncio.to_thread(batch))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait([reading])
        raise
