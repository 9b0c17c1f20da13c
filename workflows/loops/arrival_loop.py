"""The event loop that pods and nodes share: it queues results, signals and updates, and waits for the next one.

Actions run concurrently. Their results and the signals are queued in the order of their arrival. A bug in an action is
raised in the loop: under Temporal it fails the workflow task and becomes visible. Nothing is decided here.

Each wait has its own timer, which runs until the wait is over or no longer planned. Behaviours before TIMER_PER_WAIT have
one timer for the nearest wait, restarted at every arrival.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from proto.temporal.dropped import DroppedSignals
from proto.temporal.signals import BehaviourCommitted
from workflows.decide.actions import Wake
from workflows.decide.record.dropped import one_more
from workflows.loops.driver import Driver


@dataclass(frozen=True, slots=True)
class Dropped:
    """A signal that was dropped."""

    name: str
    reason: str


NEXT_RUN: Final = "the next run"
Arrival = TypeVar("Arrival")
DriverOf = TypeVar("DriverOf", bound=Driver)


class Heard(Protocol):
    """What a loop's state counts of signals."""

    signals: int
    dropped: DroppedSignals | None


class ArrivalLoop(ABC, Generic[Arrival, DriverOf]):
    """Waits for results, signals, updates and timers."""

    signal_shapes: ClassVar[Mapping[str, type]]
    """The type of each signal's value, by the signal's name."""
    observed: Heard

    def __init__(self, driver: DriverOf) -> None:
        self.driver = driver
        self.arrived: deque[Arrival | BehaviourCommitted | Dropped] = deque()
        """Not recorded yet."""
        self.bugs: list[Exception] = []
        self.timers: dict[Wake, asyncio.Task[None]] = {}
        """The running timers."""
        self.is_due = False
        """A timer has fired since the last pass of the loop."""
        self.committed = 0
        """The highest number in a BehaviourCommitted signal to this run."""

    def queue(self, arrival: Any) -> None:
        """Queue a result, or the value of a signal whose type is one of `signal_shapes`."""
        self.arrived.append(arrival)
        self.driver.notify()

    def has_news(self) -> bool:
        """Report whether something has arrived."""
        return bool(self.arrived or self.bugs)

    async def queue_result(self, action: Callable[[], Awaitable[Arrival]]) -> None:
        """Queue the result of an action; a cancelled action has none."""
        try:
            self.queue(await action())
        except asyncio.CancelledError:
            return
        except Exception as bug:  # noqa: BLE001 - raised in the loop
            self.bugs.append(bug)
            self.driver.notify()

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
            await self.driver.sleep(wait)
        except asyncio.CancelledError:
            return
        self.timers.pop(wait, None)
        self.is_due = True
        self.driver.notify()

    async def next_arrival(self, when_cancelled: str) -> bool:
        """Wait until something arrives or a timer fires; returns whether something arrived. Raises an action's bug."""
        try:
            await self.driver.wait(lambda: self.has_news() or self.is_due)
        except asyncio.CancelledError:
            self.driver.logger.warning(when_cancelled)
        self.is_due = False
        if self.bugs:
            raise self.bugs[0]
        return bool(self.arrived)

    async def next_arrival_or_wake(self, wake: Wake | None, when_cancelled: str) -> bool:
        """Do the same with one timer for the nearest wait: behaviours before TIMER_PER_WAIT."""
        try:
            await self.driver.wait(self.has_news, until=wake)
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            self.driver.logger.warning(when_cancelled)
        if self.bugs:
            raise self.bugs[0]
        return True

    def record_all(self) -> None:
        """Record everything that has arrived, in order."""
        while self.arrived:
            match self.arrived.popleft():
                case Dropped() as signal:
                    self.observed.signals += 1
                    self.remember_dropped(signal)
                case BehaviourCommitted(behaviour):
                    self.observed.signals += 1
                    self.committed = max(self.committed, behaviour)
                case arrival:
                    self.record_arrival(arrival)

    @abstractmethod
    def record_arrival(self, arrival: Arrival) -> None:
        """Record one result, signal or update in `observed`."""

    def raised(self, behaviour: int) -> int:
        """Return the behaviour of the next run: the highest committed one, never below the present one."""
        return max(behaviour, self.committed)

    def drop(self, signal: Dropped) -> None:
        """Count a malformed signal; if it counts for continue-as-new, it also wakes the loop."""
        if self.counts_dropped_signals():
            self.queue(signal)
        else:
            self.remember_dropped(signal)

    def remember_dropped(self, signal: Dropped) -> None:
        """Remember a signal that was dropped, for the card; each time that the count has doubled, log it."""
        after = one_more(self.observed.dropped, signal.name, signal.reason, self.driver.now())
        self.observed.dropped = after
        if not after.count & (after.count - 1):
            log = self.driver.logger.warning
            log("dropped the signal %r: %s (%d dropped)", signal.name, signal.reason, after.count)

    @abstractmethod
    def counts_dropped_signals(self) -> bool:
        """Report whether dropped signals count for continue-as-new in this run."""
