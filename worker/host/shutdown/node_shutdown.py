"""A graceful shutdown of this node, from the first word of it until the machine may go down.

What the kubelet's node shutdown manager does (pkg/kubelet/nodeshutdown): it tells the node's other processes and the cluster, ends the pods, waits for their
statuses to arrive, and gives up the lock. A cancelled one leaves the pods alone that were not asked to end yet.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from worker.daemon.background import in_background
from worker.events.event import TellOfNode
from worker.host.shutdown.drop_in import FOLDER
from worker.host.shutdown.ending import Node, end_pods
from worker.host.shutdown.state_file import ShutdownTimes, read_times, write_times
from worker.host.shutdown.watch import ShutdownWatch
from worker.machine.shutdown_sign import ShutdownSign
from workflows.decide.shutdown.periods import Period, requested
from workflows.decide.shutdown.words import CANCELLED, DETECTED, EVENT

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownDependencies:
    """What NodeShutdown works with."""

    node: Node
    periods: Sequence[Period]
    sign: ShutdownSign
    tell: TellOfNode
    settled: Callable[[], Awaitable[None]]
    """Returns when the API has the statuses of all pods and all events."""
    show: Callable[[float, float], None] | None
    """Shows when the last shutdown began and ended, in seconds of the clock; None: a gate forbids it."""
    bus: Path | None = None
    drop_ins: Path = FOLDER


class NodeShutdown:
    """The shutdowns of one worker process."""

    def __init__(self, dependencies: ShutdownDependencies) -> None:
        self._deps = deps = dependencies
        self.watch = ShutdownWatch(requested(deps.periods), self.told, bus=deps.bus, drop_ins=deps.drop_ins)
        self._ending: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch for shutdowns while the block runs."""
        self._deps.sign.clear()
        self._show_last()
        async with in_background("shutdowns of this machine", self.watch.run):
            try:
                yield
            finally:
                await self._stop_ending()

    async def told(self, begins: bool) -> None:  # noqa: FBT001 - as the signal has it
        """Take that a shutdown begins, or was cancelled."""
        if begins and self._ending is None:
            self._deps.tell("Normal", EVENT, DETECTED)
            _log.info("this machine is going down")
            self._deps.sign.set()
            self._ending = asyncio.create_task(self._end(), name="a shutdown of this machine")
        elif not begins:
            self._deps.tell("Normal", EVENT, CANCELLED)
            _log.info("the shutdown of this machine was cancelled")
            await self._stop_ending()
            self._deps.sign.clear()

    async def _stop_ending(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
            self._ending = None

    async def _end(self) -> None:
        """End the pods, then let the machine go down, whatever fails."""
        begun = datetime.now(UTC)
        over = asyncio.get_running_loop().time() + requested(self._deps.periods).total_seconds()
        lock = self.watch.lock
        try:
            self._note(ShutdownTimes(begun))
            await end_pods(self._deps.node, self._deps.periods)
            async with asyncio.timeout_at(over):
                await self._deps.settled()
        except TimeoutError:
            _log.warning("the API server has not taken all statuses before the machine goes down")
        except Exception as error:  # noqa: BLE001 - the machine must not wait in vain
            _log.exception("the end of the pods failed; the machine goes down", err=str(error))
        else:
            _log.info("all pods have ended; the machine may go down")
        self._note(ShutdownTimes(begun, datetime.now(UTC)))
        self.watch.release(lock)

    def _note(self, times: ShutdownTimes) -> None:
        """Write the times down for after the boot, and show them."""
        if self._deps.show is None:
            return
        try:
            write_times(self._deps.node.root_dir, times)
        except OSError as error:
            _log.warning("could not write down the times of the shutdown", err=str(error))
        self._show(times)

    def _show_last(self) -> None:
        if self._deps.show is None:
            return
        try:
            self._show(read_times(self._deps.node.root_dir))
        except (OSError, ValueError) as error:
            _log.warning("could not read the times of the last shutdown", err=str(error))

    def _show(self, times: ShutdownTimes) -> None:
        if self._deps.show is not None:
            start, end = (one.timestamp() // 1 if one else 0.0 for one in (times.start, times.end))
            self._deps.show(start, end)
