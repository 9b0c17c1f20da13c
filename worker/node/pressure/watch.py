"""Measures resource pressure every ten seconds for the node's conditions; no pod is evicted for it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog

from activities.machine.cgroup_hierarchies import Hierarchies
from worker.node.pressure.signals import Places, observe
from worker.node.pressure.thresholds import HISTORY_PRESSURE, Pressure, evaluate
from worker.node.process.monotonic_clock import monotonic_now
from worker.node.process.threads import in_node_thread
from worker.settings.eviction import Eviction
from worker.settings.tempolet_configuration import TempoletConfiguration
from worker.temporal.database_size import limit_bytes, used_bytes

EVERY: Final = timedelta(seconds=10)

log = structlog.get_logger(__name__)


class PressureWatch:
    """The last evaluation, updated by `run`."""

    def __init__(
        self,
        eviction: Eviction,
        root_dir: Path,
        image_folder: Callable[[], str],
        changed: Callable[[], None],
        *,
        configuration: TempoletConfiguration | None = None,
    ) -> None:
        """Take the function that returns the images' folder, and one to call when a condition changes."""
        self._eviction, self._root_dir = eviction, root_dir
        self._configuration = configuration or TempoletConfiguration()
        self._image_folder, self._changed = image_folder, changed
        self._hierarchies = Hierarchies.of_this_node()
        self.state = Pressure()
        self._history_over = False

    @property
    def conditions(self) -> frozenset[str]:
        """The pressure conditions that are true."""
        return self.state.conditions | ({HISTORY_PRESSURE} if self._history_over else frozenset())

    async def run(self) -> None:
        """Measure until cancelled; if a file system hangs, the last result stays."""
        while True:
            await self.measure()
            await asyncio.sleep(EVERY.total_seconds())

    async def measure(self) -> None:
        """Measure once."""
        folder = self._image_folder()
        places = Places(self._root_dir, Path(folder) if folder else None, self._hierarchies)
        observed = await in_node_thread(observe, places)
        before = self.conditions
        self.state = evaluate(self._eviction, observed, self.state, monotonic_now())
        self._history_over = await in_node_thread(self._exceeds_limit)
        if self.conditions != before:
            left = {signal: f"{one.available} of {one.capacity}" for signal, one in observed.items()}
            log.info("pressure conditions changed", conditions=sorted(self.conditions), left=left)
            self._changed()

    def _exceeds_limit(self) -> bool:
        """Report whether the database of histories exceeds its limit; False if there is none, or it cannot be read."""
        file, limit = self._configuration.temporal.database_file, self._configuration.history.database_limit
        try:
            return file is not None and used_bytes(file) > limit_bytes(limit)
        except ValueError:
            return False
