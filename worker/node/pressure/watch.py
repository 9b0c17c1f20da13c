"""Looks every ten seconds for the node's pressure conditions: what the worker has judged, and the size of the database of histories."""

import asyncio
from collections.abc import Callable
from typing import Final

from proto.node_pressure import read_node_pressure
from worker.daemon.config import NodeConfig
from worker.node.process.threads import in_node_thread
from worker.temporal.database_size import limit_bytes, used_bytes
from workflows.decide.eviction.rounds import EVERY

HISTORY_PRESSURE: Final = "HistoryPressure"
"""Our own condition: the database of histories exceeds its limit (worker/host/temporal/history_limit.py)."""


class PressureWatch:
    """What was found last, updated by `run`."""

    def __init__(self, config: NodeConfig, changed: Callable[[], None]) -> None:
        """Take a function to call when a condition changes."""
        self._config, self._changed = config, changed
        self._judged: frozenset[str] = frozenset()
        self._history_over = False

    @property
    def conditions(self) -> frozenset[str]:
        """The pressure conditions that are true."""
        return self._judged | ({HISTORY_PRESSURE} if self._history_over else frozenset())

    async def run(self) -> None:
        """Look until cancelled; if a file system hangs, the last result stays."""
        while True:
            await self.measure()
            await asyncio.sleep(EVERY.total_seconds())

    async def measure(self) -> None:
        """Look once."""
        before = self.conditions
        self._judged = await in_node_thread(read_node_pressure, self._config.root_dir)
        self._history_over = await in_node_thread(self._exceeds_limit)
        if self.conditions != before:
            self._changed()

    def _exceeds_limit(self) -> bool:
        """Report whether the database of histories exceeds its limit; False if there is none, or it cannot be read."""
        ours = self._config.tempolet
        file, limit = ours.temporal.database_file, ours.history.database_limit
        try:
            return file is not None and used_bytes(file) > limit_bytes(limit)
        except ValueError:
            return False
