"""Leads one workflow's loop in this process, from the state that it would have continued as new with.

What happens goes into its journal, so that the history has it afterwards. Nothing ends the lead but the loop's end and a hand-over:
after a defect of ours it begins anew from the last decision.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from proto.temporal.away import EntryKind, StoryEntry
from worker.stand_in.in_process_driver import InProcessDriver, Left, NextRun, Targets
from worker.stand_in.performing import Activities
from worker.stand_in.pod_journal import PodJournal
from workflows.loops.arrival_loop import Dropped
from workflows.loops.node_loop import NodeLoop
from workflows.loops.pod_loop import PodLoop

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until a loop that failed begins anew."""
WRONG_TYPE: Final = "its value is of another type"
LONGEST_NAME: Final = 60
"""Characters of a message's name that are repeated."""
LoopOf = TypeVar("LoopOf", PodLoop, NodeLoop)
_log: Final = logging.getLogger(__name__)


class NotLed(Exception):
    """The workflow's loop is not led here any more."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a loop is led with."""

    activities: Activities
    journal: PodJournal
    targets: Targets
    lead_id: str
    """Distinguishes this lead of the loop from every other one, and from Temporal's runs."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class LoopLead(ABC, Generic[LoopOf]):
    """The lead of one loop; use it from one event loop."""

    def __init__(self, workflow_id: str, start: Any, means: Means) -> None:
        self.workflow_id = workflow_id
        self._means = means
        self._runs = 0
        self._is_over = False
        self._pause = FIRST_PAUSE
        self._driver: InProcessDriver
        self._loop: LoopOf
        self._driver, self._loop = self._new_run(start)

    @abstractmethod
    def _new_loop(self, start: Any, driver: InProcessDriver) -> LoopOf:
        """Make the loop of a run."""

    async def lead(self) -> Any:
        """Lead the loop until it ends; returns None if it was handed over. Raises asyncio.CancelledError if cancelled."""
        try:
            while not self._is_over:
                try:
                    return await self._loop.run()
                except NextRun as following:
                    self._begin(following.start)
                except Left:
                    if not self._is_over:
                        raise asyncio.CancelledError from None
                except Exception:  # noqa: BLE001 - nothing ends a lead
                    await self._begin_anew()
            return None
        finally:
            self._is_over = True
            self._driver.leave()

    async def deliver(self, name: str, value: Any) -> None:
        """Take a signal: a value of its type, or the same as JSON; returns once it is in the journal. Raises NotLed."""
        self._require_lead()
        shape = self._loop.signal_shapes.get(name)
        signal = None if shape is None else self._read(value, shape)
        if signal is None:
            why = "it has an unknown name" if shape is None else WRONG_TYPE
            self._loop.drop(Dropped(name[:LONGEST_NAME], why))
            return
        await self._means.journal.record(StoryEntry(self._driver.now(), EntryKind.SIGNALLED, name, value=signal))
        self._require_lead()
        self._loop.queue(signal)

    # --- handing over

    async def freeze(self, within: timedelta) -> bool:
        """Begin no action any more, and wait for the end of those that nobody can attach to; False if they did not end in time.

        Messages are taken until `hand_over`. Raises NotLed.
        """
        self._require_lead()
        try:
            return await self._driver.freeze(within, lambda: not self._loop.arrived)
        except Left:
            raise NotLed from None

    def thaw(self) -> None:
        """Go on: the loop is not handed over."""
        self._driver.thaw()

    def hand_over(self) -> Any:
        """End the lead; returns the state with which another driver goes on. Raises NotLed."""
        self._require_lead()
        self._loop.record_all()
        self._is_over = True
        self._driver.leave()
        return self.state()

    def state(self) -> Any:
        """Return the state with which another driver would go on, also after the end of the lead."""
        return self._loop.state()

    # --- parts

    def _begin(self, start: Any) -> None:
        """Leave the present run of the loop, and begin another one."""
        self._driver.leave()
        frozen = self._driver.is_frozen
        self._driver, self._loop = self._new_run(start)
        self._driver.is_frozen = frozen

    def _new_run(self, start: Any) -> tuple[InProcessDriver, LoopOf]:
        means = self._means
        self._runs += 1
        run_id = f"{means.lead_id}/{self._runs}"
        driver = InProcessDriver(self.workflow_id, run_id, means.activities, means.journal, means.targets, means.clock)
        return driver, self._new_loop(start, driver)

    async def _begin_anew(self) -> None:
        """Begin a run from the last decision, after a defect; what arrived since then and was not recorded is taken over."""
        _log.exception("a defect of tempolet, please report it: the lead of %s begins anew", self.workflow_id)
        arrived = [one for one in self._loop.arrived if not isinstance(one, tuple)]
        self._begin(self._driver.kept() or self._loop.start)
        for one in arrived:
            self._loop.queue(one)
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        await asyncio.sleep(pause)

    def _require_lead(self) -> None:
        if self._is_over:
            raise NotLed

    def _read(self, value: Any, shape: type) -> Any:
        """Convert a value to its type; None for one of another type."""
        try:
            return self._driver.converted(value, shape)
        except Exception:  # noqa: BLE001 - pydantic raises many; what a stranger sends stops nothing
            return None
