"""Restarts a loop after an unexpected error, and tells about it.

A loop that ended silently would leave pods with outdated data for ever, and one that ended its process would do so for
the sake of one bad pod, file or answer. The pause grows while the loop fails again and again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from worker.daemon.troubles import TROUBLES, Troubles

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until the loop is restarted."""
STEADY: Final = 120.0
"""Seconds after which a restarted loop counts as working; longer than the longest interval of a loop's turns."""
JITTER: Final = 0.25
"""Share of the pause by which it varies, so that loops with one cause do not all come back at once."""

_log: Final = structlog.get_logger(__name__)


async def restart_on_error(
    what: str, loop: Callable[[], Awaitable[object]], *, troubles: Troubles = TROUBLES, steady: float = STEADY
) -> None:
    """Run a loop until it returns or is cancelled; any other error is logged and told, and the loop restarted."""
    clock, pause = asyncio.get_running_loop(), FIRST_PAUSE
    recovering: asyncio.TimerHandle | None = None
    while True:
        begun = clock.time()
        try:
            await loop()
        except Exception as error:  # noqa: BLE001 - logged and told; one bad pod or file must not end the process
            if clock.time() - begun >= steady:
                pause = FIRST_PAUSE
            troubles.failed(what, error)
            seconds = pause * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spread, not secrecy
            _log.exception("a loop failed unexpectedly; restarting it", what=what, seconds=round(seconds, 1))
        else:
            troubles.works(what)
            return
        finally:
            if recovering is not None:
                recovering.cancel()
        await asyncio.sleep(seconds)
        pause = min(pause * 2, LONGEST_PAUSE)
        recovering = clock.call_later(steady, troubles.works, what)
