"""Restarts a loop after an unexpected error.

A loop that ended silently would leave pods with outdated data for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

AGAIN: Final = 10.0
"""Seconds until the loop is restarted."""

_log: Final = structlog.get_logger(__name__)


async def restart_on_error(what: str, loop: Callable[[], Awaitable[object]]) -> None:
    """Run a loop until it returns or is cancelled; any other error is logged, and the loop restarted."""
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001 - an unexpected error must not end the loop
            _log.exception("a loop failed unexpectedly; restarting it", what=what)
            await asyncio.sleep(AGAIN)
        else:
            return
