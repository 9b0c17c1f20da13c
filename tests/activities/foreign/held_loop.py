"""Measures what holds the event loop: asyncio's own log of slow callbacks, and a clock that ticks beside the work.

The log shows what ran too long on the loop, the clock also what kept Python's lock in another thread. On a loaded machine
both also show that this process had to wait for a processor. So what took no processor time counts only if it lasted
half a second, as a call that blocks, and a measurement is repeated: what holds the loop each time is a defect.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, process_time
from typing import Final

MOST_SECONDS: Final = 0.05
_BLOCKED_SECONDS: Final = 0.5
_TICK: Final = 0.01
_TRIES: Final = 5


class _Clock(logging.Handler):
    """Ticks while the work is done, and hears asyncio's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.held: list[str] = []
        self._ticked = monotonic(), process_time()

    def emit(self, record: logging.LogRecord) -> None:
        """Take the warning about a callback that has just ended: its processor time was used since the last tick."""
        match record.args:
            case (_, float(seconds)):
                self._note(seconds, record.getMessage()[-300:])

    async def tick(self) -> None:
        """Note each gap between two ticks, until cancelled."""
        while True:
            self._ticked = monotonic(), process_time()
            await asyncio.sleep(_TICK)
            gap = monotonic() - self._ticked[0] - _TICK
            self._note(gap, f"the loop did not run for {gap:.3f} s")

    def _note(self, seconds: float, what: str) -> None:
        worked = process_time() - self._ticked[1]
        if min(seconds, worked) > MOST_SECONDS or seconds > _BLOCKED_SECONDS:
            self.held.append(what)


async def holds(work: Callable[[], Awaitable[object]]) -> list[str]:
    """Do the work up to five times, until it does not hold the loop; returns what held it the last time."""
    found: list[str] = []
    for _ in range(_TRIES):
        with _slow_callbacks() as clock:
            ticks = asyncio.create_task(clock.tick())
            try:
                await asyncio.create_task(_done(work))  # asyncio times what begins after its log was switched on
            finally:
                ticks.cancel()
                with suppress(asyncio.CancelledError):
                    await ticks
        found = clock.held
        if not found:
            break
    return found


async def _done(work: Callable[[], Awaitable[object]]) -> None:
    await work()


@contextmanager
def _slow_callbacks() -> Iterator[_Clock]:
    loop, log, clock = asyncio.get_running_loop(), logging.getLogger("asyncio"), _Clock()
    before = loop.get_debug(), loop.slow_callback_duration
    loop.set_debug(True)
    loop.slow_callback_duration = MOST_SECONDS
    log.addHandler(clock)
    try:
        yield clock
    finally:
        log.removeHandler(clock)
        loop.set_debug(before[0])
        loop.slow_callback_duration = before[1]
