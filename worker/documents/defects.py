"""A loop that a defect of ours, or an object that nobody has thought of, does not end.

Around each loop of this room: one that ended silently would leave pods with what they had, for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

AGAIN: Final = 10.0
"""Seconds until the loop begins anew."""

_log: Final = structlog.get_logger(__name__)


async def in_spite_of_defects(what: str, loop: Callable[[], Awaitable[object]]) -> None:
    """Run a loop until it ends by itself or is cancelled; what else ends it is told, and it begins anew."""
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001 - a defect may cost a moment, not everything after it
            _log.exception("a loop of ours failed unexpectedly; it begins anew", what=what)
            await asyncio.sleep(AGAIN)
        else:
            return
