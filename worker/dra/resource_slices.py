"""Removes the ResourceSlices of drivers that are gone, so that the scheduler sends no pod here that would wait for them.

All of this node's at the start, because no driver has registered yet; those of one driver when none of its plugins has been connected for
30 seconds (dra_plugin_manager.go). A driver that comes again publishes them again.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import RESOURCE_SLICES

WIPING_DELAY: Final = timedelta(seconds=30)
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0

_log: Final = structlog.get_logger(__name__)


class ResourceSlices:
    """The slices of one node; used from one event loop."""

    def __init__(
        self, api: ApiServer, node: str, is_usable: Callable[[str], bool], delay: timedelta = WIPING_DELAY
    ) -> None:
        self._api, self._node, self._is_usable, self._delay = api, node, is_usable, delay
        self._wiping: dict[str, asyncio.Task[None]] = {}

    def changed(self, driver: str) -> None:
        """Take that a driver's plugins came, went, connected or lost their connection."""
        if self._is_usable(driver):
            if task := self._wiping.pop(driver, None):
                task.cancel()
        elif driver not in self._wiping:
            self._wiping[driver] = asyncio.create_task(self._wipe_later(driver))

    async def run(self) -> None:
        """Remove all at the start; then wait for ever, and end what is under way when cancelled."""
        try:
            await self.wipe("")
            await asyncio.Event().wait()
        finally:
            for task in self._wiping.values():
                task.cancel()
            self._wiping.clear()

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(self._delay.total_seconds())
        await self.wipe(driver)
        self._wiping.pop(driver, None)

    async def wipe(self, driver: str) -> None:
        """Remove the slices of a driver, or of all; tries until it succeeds."""
        selector = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._api.call("DELETE", RESOURCE_SLICES.path(), query={"fieldSelector": selector})
            except (ApiRefused, ApiAway) as error:
                if isinstance(error, ApiRefused) and error.not_found:
                    return
                _log.info("Deleting ResourceSlice failed, retrying", fieldSelector=selector, err=str(error))
            else:
                _log.info("Deleted ResourceSlices", fieldSelector=selector)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
