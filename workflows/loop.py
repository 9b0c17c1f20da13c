"""The event loop that both workflows share: it queues results, signals and updates, and waits for the next one.

Actions run concurrently. Their results and the signals are queued in the order of their arrival. A bug in an action is
raised in the loop, where it fails the workflow task and becomes visible. Nothing is decided here.

A signal that tempolet has not written is dropped and counted, whatever its form: one handler takes the raw values of all
signals. Queries need no such care, because the SDK answers a malformed one with an error.

Each wait has its own timer, which runs until the wait is over or no longer planned. Behaviours before TIMER_PER_WAIT have
one timer for the nearest wait, restarted at every arrival.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar, Final, Generic, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import CancelledError

from proto.temporal.dropped import DroppedSignals
from proto.temporal.signals import BehaviourCommitted
from workflows.calls import SUMMARY_LIMIT
from workflows.decide.actions import Wake
from workflows.decide.record.dropped import one_more
from workflows.received import Dropped, MessageRefused, read, shortened

SIGNALS_PER_RUN: Final = 2000
"""Temporal rejects signals beyond 10,000 in one run."""
EVENTS_PER_RUN: Final = 500
"""So that replays end within the timeout of a workflow task (3 s). A worker that starts replays every pod that has news, eight
at a time on one interpreter, and 1,000 events take 0.4 s of CPU. With runs of 4,000 events the tasks took 14 s and were lost
two times out of three."""
Arrival = TypeVar("Arrival")


class ArrivalLoop(ABC, Generic[Arrival]):
    """A workflow that waits for results, signals, updates and timers."""

    signal_shapes: ClassVar[Mapping[str, type]]
    """The type of each signal's value, by the signal's name."""

    def __init__(self) -> None:
        self.arrived: deque[Arrival | BehaviourCommitted | Dropped] = deque()
        """Not recorded yet."""
        self.bugs: list[Exception] = []
        self.timers: dict[Wake, asyncio.Task[None]] = {}
        """The running timers."""
        self.is_due = False
        """A timer has fired since the last pass of the loop."""
        self.committed = 0
        """The highest number in a BehaviourCommitted signal to this run."""

    async def queue_result(self, action: Callable[[], Awaitable[Arrival]]) -> None:
        """Queue the result of an action; a cancelled action has none."""
        try:
            self.arrived.append(await action())
        except (asyncio.CancelledError, CancelledError):
            return
        except Exception as bug:  # noqa: BLE001 - raised in the loop, where it fails the workflow task
            self.bugs.append(bug)

    def keep_timers(self, waits: Sequence[Wake], *, complete: bool) -> None:
        """Start a timer for each wait that has none; if `waits` is complete, cancel all other timers."""
        for over in [one for one in self.timers if complete and one not in waits]:
            self.timers.pop(over).cancel()
        for wait in waits:
            if wait not in self.timers:
                self.timers[wait] = asyncio.create_task(self.fire(wait))

    async def fire(self, wait: Wake) -> None:
        """Wake the loop when this wait is over."""
        try:
            await workflow.sleep(time_left(wait), summary=wait.summary[:SUMMARY_LIMIT])
        except (asyncio.CancelledError, CancelledError):
            return
        self.timers.pop(wait, None)
        self.is_due = True

    async def next_arrival(self, when_cancelled: str) -> bool:
        """Wait until something arrives or a timer fires; returns whether something arrived. Raises an action's bug."""
        try:
            await workflow.wait_condition(lambda: bool(self.arrived or self.bugs or self.is_due))
        except asyncio.CancelledError:
            workflow.logger.warning(when_cancelled)
        self.is_due = False
        if self.bugs:
            raise self.bugs[0]
        return bool(self.arrived)

    async def next_arrival_or_wake(self, wake: Wake | None, when_cancelled: str) -> bool:
        """Do the same with one timer for the nearest wait: behaviours before TIMER_PER_WAIT."""
        timeout = time_left(wake) if wake else None
        try:
            await workflow.wait_condition(
                lambda: bool(self.arrived or self.bugs), timeout=timeout, timeout_summary=wake.summary if wake else None
            )
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            workflow.logger.warning(when_cancelled)
        if self.bugs:
            raise self.bugs[0]
        return True

    def raised(self, behaviour: int) -> int:
        """Return the behaviour of the next run: the highest committed one, never below the present one."""
        return max(behaviour, self.committed)

    @workflow.signal(dynamic=True)
    def signalled(self, name: str, values: Sequence[RawValue]) -> None:
        """Queue a signal for the loop; a malformed one is dropped, and wakes the loop if it counts for continue-as-new."""
        try:
            self.arrived.append(read(values, self.signal_shapes.get(name)))
        except MessageRefused as refused:
            dropped = Dropped(shortened(name), str(refused))
            if self.counts_dropped_signals():
                self.arrived.append(dropped)
            else:
                self.remember_dropped(dropped)

    @abstractmethod
    def counts_dropped_signals(self) -> bool:
        """Report whether dropped signals count for continue-as-new in this run."""

    @abstractmethod
    def remember_dropped(self, signal: Dropped) -> None:
        """Remember a signal that was dropped."""


def with_dropped(before: DroppedSignals | None, signal: Dropped) -> DroppedSignals:
    """Count a dropped signal; each time that the count has doubled, log it."""
    after = one_more(before, signal.name, signal.reason, workflow.now())
    if not after.count & (after.count - 1):
        workflow.logger.warning("dropped the signal %r: %s (%d dropped)", signal.name, signal.reason, after.count)
    return after


def time_left(wake: Wake) -> timedelta:
    """Return the duration of a timer for this wait."""
    return max(wake.at - workflow.now(), timedelta(milliseconds=1))


def is_history_long(signals: int, *, short_run: bool = False) -> bool:
    """Report whether this run's history is long enough for continue-as-new; `short_run`: from behaviour SHORT_RUNS on."""
    info = workflow.info()
    if short_run and info.get_current_history_length() >= EVENTS_PER_RUN:
        return True
    return info.is_continue_as_new_suggested() or signals >= SIGNALS_PER_RUN
