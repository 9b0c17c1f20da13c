"""Reads a container's log in threads, one batch at a time, so that the event loop never waits for a disk.

A thread is used for each batch only; a follower that waits for new lines holds none, so hundreds may follow. The log is polled
after 20 ms, with the interval doubling up to 0.5 s while nothing is new.
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
    """Yield the requested part of a log, until its end or, with `running`, until that returns False.

    The first batch comes as soon as the log is open. An empty batch comes whenever nothing is new, so that the sender can check
    whether its client is still connected. Raises FileNotFoundError or another OSError before the first batch.
    """
    pieces = log_pieces(log, options, running)
    wait = FIRST_WAIT

    def batch() -> tuple[bytes, bool]:
        """Read up to a batch; report whether the end is reached."""
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
    """Run it in a thread; if cancelled, still wait for its end, because nothing else may use the reader meanwhile."""
    reading = asyncio.ensure_future(asyncio.to_thread(batch))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait([reading])
        raise
