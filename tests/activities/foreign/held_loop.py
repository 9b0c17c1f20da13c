"""Measures what holds the event loop: asyncio's own log of slow callbacks, and a clock that ticks beside the work.

Both also show that this thread had to wait for a processor. So of a gap counts what the thread computed, or what it
waited for Python's lock while the process computed; a gap of half a second counts in any case, as a call that blocks.
A measurement is repeated: what holds the loop each time is a defect.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from resource import RUSAGE_THREAD, getrusage
from time import monotonic, process_time, thread_time
from typing import Final

MOST_SECONDS: Final = 0.05
_BLOCKED_SECONDS: Final = 0.5
_TICK: Final = 0.01
_TRIES: Final = 5


@dataclass(frozen=True)
class _Instant:
    """The clocks of the loop's thread, and of all threads."""

    at: float = field(default_factory=monotonic)
    computed: float = field(default_factory=thread_time)
    computed_by_all: float = field(default_factory=process_time)
    waits: int = field(default_factory=lambda: getrusage(RUSAGE_THREAD).ru_nvcsw)

    def held_since(self, before: "_Instant") -> float:
        """Seconds that the thread computed, or waited for Python's lock: such a wait ends at each switch interval."""
        waited = (self.waits - before.waits) * sys.getswitchinterval()
        return max(self.computed - before.computed, min(waited, self.computed_by_all - before.computed_by_all))


class _Clock(logging.Handler):
    """Ticks while the work is done, and hears asyncio's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.held: list[str] = []
        self._ticked = _Instant()

    def emit(self, record: logging.LogRecord) -> None:
        """Take the warning about a callback that has just ended: what it used was used since the last tick."""
        match record.args:
            case (_, float(seconds)):
                self._note(seconds, record.getMessage()[-300:])

    async def tick(self) -> None:
        """Note each gap between two ticks, until cancelled."""
        while True:
            self._ticked = _Instant()
            await asyncio.sleep(_TICK)
            gap = monotonic() - self._ticked.at - _TICK
            self._note(gap, f"the loop did not run for {gap:.3f} s")

    def _note(self, seconds: float, what: str) -> None:
        held = _Instant().held_since(self._ticked)
        if min(seconds, held) > MOST_SECONDS or seconds > _BLOCKED_SECONDS:
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
