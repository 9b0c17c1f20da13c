"""Measures resource pressure every ten seconds for the node's conditions; no pod is evicted for it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from activities.machine.cgroup_hierarchies import Hierarchies
from proto.temporal.eviction.pressure import Pressure
from worker.daemon.config import NodeConfig
from worker.machine.cgroup_driver import recorded_names
from worker.node.process.monotonic_clock import monotonic_now
from worker.node.process.threads import in_node_thread
from worker.stats.node_stats import reader_of
from worker.stats.pressure.node_reading import Places, measure_node
from worker.temporal.database_size import limit_bytes, used_bytes
from workflows.decide.eviction.disks import with_container_fs
from workflows.decide.eviction.observations import observations
from workflows.decide.eviction.pressure import judge
from workflows.decide.eviction.rounds import EVERY

HISTORY_PRESSURE: Final = "HistoryPressure"
"""Our own condition: the database of histories exceeds its limit (worker/host/temporal/history_limit.py)."""

log = structlog.get_logger(__name__)


class PressureWatch:
    """The last judgement, updated by `run`."""

    def __init__(self, config: NodeConfig, image_folder: Callable[[], str], changed: Callable[[], None]) -> None:
        """Take the function that returns the images' folder, and one to call when a condition changes."""
        self._config = config
        self._image_folder, self._changed = image_folder, changed
        self._reader = reader_of(Hierarchies.of_this_node())
        self.state = Pressure()
        self._history_over = False

    @property
    def conditions(self) -> frozenset[str]:
        """The pressure conditions that are true."""
        return frozenset(self.state.conditions) | ({HISTORY_PRESSURE} if self._history_over else frozenset())

    async def run(self) -> None:
        """Measure until cancelled; if a file system hangs, the last result stays."""
        while True:
            await self.measure()
            await asyncio.sleep(EVERY.total_seconds())

    async def measure(self) -> None:
        """Measure once."""
        found = await in_node_thread(measure_node, self._reader, self._places())
        before, observed, policy = self.conditions, observations(found.reading), self._config.eviction
        thresholds = with_container_fs(policy.thresholds, found.disks)
        judged = judge(thresholds, observed, self.state, transition=policy.transition, now=monotonic_now())
        self.state = judged.pressure
        self._history_over = await in_node_thread(self._exceeds_limit)
        if self.conditions != before:
            left = {str(signal): f"{one.available} of {one.capacity}" for signal, one in observed.items()}
            log.info("pressure conditions changed", conditions=sorted(self.conditions), left=left)
            self._changed()

    def _places(self) -> Places:
        folder = self._image_folder()
        pods = recorded_names(self._config.state_dir, self._config.cgroup_root).path()
        return Places(self._config.root_dir, Path(folder) if folder else None, pods)

    def _exceeds_limit(self) -> bool:
        """Report whether the database of histories exceeds its limit; False if there is none, or it cannot be read."""
        ours = self._config.tempolet
        file, limit = ours.temporal.database_file, ours.history.database_limit
        try:
            return file is not None and used_bytes(file) > limit_bytes(limit)
        except ValueError:
            return False
