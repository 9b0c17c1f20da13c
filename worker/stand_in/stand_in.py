"""Leads one pod in this process, from the state that its workflow would have continued as new with.

What happens goes into the pod's journal, so that another process can lead on (`recovery.py`), and the history has it afterwards.
Nothing ends the lead but the pod's end and a hand-over: after a bug of ours it begins anew from the last decision.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.names import PodWorkflowId
from proto.temporal.operator import Explanation, Rejection
from proto.temporal.pod import PodOutcome, PodStart
from worker.stand_in.in_process_driver import Activities, InProcessDriver, Left, NextRun, Targets
from worker.stand_in.pod_journal import PodJournal
from worker.stand_in.recovery import fold
from workflows.decide.refusal import Refusal
from workflows.loops.arrival_loop import Dropped
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.pod_loop import PodLoop

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until a loop that failed begins anew."""
WRONG_TYPE: Final = "its value is of another type"
_log: Final = logging.getLogger(__name__)


class RequestRefused(Exception):
    """An operator's request is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class NotLed(Exception):
    """The pod is not led here any more."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a pod is led with."""

    activities: Activities
    journal: PodJournal
    targets: Targets
    lead_id: str
    """Distinguishes this lead of the pod from every other one, and from Temporal's runs."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class StandIn:
    """The lead of one pod; use it from one event loop."""

    def __init__(self, start: PodStart, means: Means, tail: Iterable[StoryEntry] = ()) -> None:
        """Take the newest state, and what the journal has after it."""
        meta = start.pod["metadata"]
        self.workflow_id = str(PodWorkflowId(start.node, meta["namespace"], meta["name"], meta["uid"]))
        self._means = means
        self._runs = 0
        self._is_over = False
        self._pause = FIRST_PAUSE
        if start.observed is not None:
            start = replace(start, observed=replace(start.observed, runtime_stale=True))
        self._driver, self._loop = self._new_run(start)
        fold(self._loop, self._driver, tail)

    async def lead(self) -> PodOutcome | None:
        """Lead the pod until it is gone; returns None if it was handed over. Raises asyncio.CancelledError if cancelled."""
        try:
            while not self._is_over:
                try:
                    return await self._loop.run()
                except NextRun as following:
                    self._begin(following.start)
                except Left:
                    if not self._is_over:
                        raise asyncio.CancelledError from None
                except Exception:  # noqa: BLE001 - nothing ends a pod's lead
                    await self._begin_anew()
            return None
        finally:
            self._is_over = True
            self._driver.leave()

    # --- messages

    async def deliver(self, name: str, value: Any) -> None:
        """Take a signal: a value of its type, or the same as JSON; returns once it is in the journal. Raises NotLed."""
        self._require_lead()
        shape = self._loop.signal_shapes.get(name)
        signal = None if shape is None else self._read(value, shape)
        if signal is None:
            self._loop.drop(Dropped(name[:60], "it has an unknown name" if shape is None else WRONG_TYPE))
            return
        await self._means.journal.record(StoryEntry(self._driver.now(), EntryKind.SIGNALLED, name, value=signal))
        self._require_lead()
        self._loop.queue(signal)

    async def update(self, name: str, value: Any) -> Any:
        """Do what an operator asks; returns the answer once the state is on disk. Raises RequestRefused and NotLed."""
        asked = self._asked(name, value)
        refusal = self._loop.refusal(name, asked)
        answer = refusal or self._loop.request(name, asked)
        if isinstance(answer, Refusal):
            raise RequestRefused(answer)
        self._means.journal.note(StoryEntry(self._driver.now(), EntryKind.UPDATED, name, value=answer))
        await self._driver.decided(lambda: not self._loop.arrived)
        await self._means.journal.flush()
        return answer

    def why_not(self, name: str, value: Any) -> Rejection | None:
        """Return why an update would be refused; None if it would not. Raises RequestRefused and NotLed."""
        refusal = self._loop.refusal(name, self._asked(name, value))
        return Rejection(refusal.reason, refusal.message) if refusal else None

    def explain(self) -> Explanation:
        """Explain what the pod waits for and what would happen next."""
        return self._loop.explain()

    def pod_status(self) -> dict[str, Any]:
        """Return V1PodStatus as JSON."""
        return self._loop.pod_status()

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
        """Go on: the pod is not handed over."""
        self._driver.thaw()

    def hand_over(self) -> PodStart:
        """End the lead; returns the state with which another driver goes on. Raises NotLed."""
        self._require_lead()
        self._loop.record_all()
        self._is_over = True
        self._driver.leave()
        return self.state()

    def state(self) -> PodStart:
        """Return the state with which another driver would go on, also after the end of the lead."""
        return self._loop.state()

    # --- parts

    def _begin(self, start: PodStart) -> None:
        """Leave the present run of the loop, and begin another one."""
        self._driver.leave()
        frozen = self._driver.is_frozen
        self._driver, self._loop = self._new_run(start)
        self._driver.is_frozen = frozen

    def _new_run(self, start: PodStart) -> tuple[InProcessDriver, PodLoop]:
        means = self._means
        self._runs += 1
        run_id = f"{means.lead_id}/{self._runs}"
        driver = InProcessDriver(self.workflow_id, run_id, means.activities, means.journal, means.targets, means.clock)
        return driver, PodLoop(start, driver)

    async def _begin_anew(self) -> None:
        """Begin a run from the last decision, after a bug; what arrived since then and was not recorded is taken over."""
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

    def _asked(self, name: str, value: Any) -> Any:
        """Read a request; raises RequestRefused and NotLed."""
        self._require_lead()
        request = REQUESTS.get(name)
        asked = None if request is None else self._read(value, request.shape)
        if asked is None:
            raise RequestRefused(Refusal("Malformed", f"the request {name[:60]} is refused: {WRONG_TYPE}"))
        return asked

    def _read(self, value: Any, shape: type) -> Any:
        """Convert a value to its type; None for one of another type."""
        try:
            return self._driver.converted(value, shape)
        except Exception:  # noqa: BLE001 - pydantic raises many; what a stranger sends stops nothing
            return None
