"""What the loops of both workflows have in common: actions go on beside them, and the next thing to happen is waited for.

Nothing here decides. What an action comes back with and what is said are filed alike, in the order in which they arrive; a
defect is raised in the loop, where it fails the workflow task and is seen.

Each wait has a timer of its own, which runs on whatever arrives until its wait is over or is another one. Behaviours before
that (TIMER_A_WAIT) have one timer for the nearest wait, started anew at every arrival.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import CancelledError

from proto.temporal import names
from proto.temporal.signals import BehaviourCommitted
from workflows.calls import SUMMARY_LIMIT
from workflows.decide.actions import Wake

SIGNALS_A_RUN: Final = 2000
"""Temporal rejects signals beyond 10,000 in one run."""
Arrival = TypeVar("Arrival")


class ArrivalLoop(Generic[Arrival]):
    """A workflow that waits for arrivals."""

    def __init__(self) -> None:
        self.arrived: deque[Arrival | BehaviourCommitted] = deque()
        """Not written down yet."""
        self.bugs: list[Exception] = []
        self.timers: dict[Wake, asyncio.Task[None]] = {}
        """Those that run, by what they wait for."""
        self.is_due = False
        """One of them has fired since the loop last looked."""
        self.committed = 0
        """The highest behaviour that this run was told the node is committed to."""

    async def file_when_done(self, coming: Callable[[], Awaitable[Arrival]]) -> None:
        """File what an action comes back with; nothing of one that was given up."""
        try:
            self.arrived.append(await coming())
        except (asyncio.CancelledError, CancelledError):
            return
        except Exception as bug:  # noqa: BLE001 - raised in the loop, where it fails the workflow task and is seen
            self.bugs.append(bug)

    def keep_timers(self, waits: Sequence[Wake], *, complete: bool) -> None:
        """Start a timer for each wait that has none; where the waits are complete, cancel those of other waits."""
        for over in [one for one in self.timers if complete and one not in waits]:
            self.timers.pop(over).cancel()
        for wait in waits:
            if wait not in self.timers:
                self.timers[wait] = asyncio.create_task(self.fire(wait))

    async def fire(self, wait: Wake) -> None:
        """Let the loop look again when this wait is over."""
        try:
            await workflow.sleep(time_left(wait), summary=wait.summary[:SUMMARY_LIMIT])
        except (asyncio.CancelledError, CancelledError):
            return
        self.timers.pop(wait, None)
        self.is_due = True

    async def next_arrival(self, when_cancelled: str) -> bool:
        """Wait until something arrives or a timer fires; says whether anything has arrived. Raises a defect."""
        try:
            await workflow.wait_condition(lambda: bool(self.arrived or self.bugs or self.is_due))
        except asyncio.CancelledError:
            workflow.logger.warning(when_cancelled)
        self.is_due = False
        if self.bugs:
            raise self.bugs[0]
        return bool(self.arrived)

    async def next_arrival_or_wake(self, wake: Wake | None, when_cancelled: str) -> bool:
        """Do the same with one timer for the nearest wait, as behaviours before TIMER_A_WAIT."""
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
        """Say which behaviour the next run follows: the one that the node is committed to, never a lower one."""
        return max(behaviour, self.committed)

    @workflow.signal(
        name=names.BEHAVIOUR_COMMITTED, description="there is no way back to a release without this behaviour"
    )
    def behaviour_committed(self, signal: BehaviourCommitted) -> None:
        """File it."""
        self.arrived.append(signal)


def time_left(wake: Wake) -> timedelta:
    """Say how long a timer for this lasts."""
    return max(wake.at - workflow.now(), timedelta(milliseconds=1))


def has_grown(signals: int) -> bool:
    """Say whether this run's history has grown enough."""
    return workflow.info().is_continue_as_new_suggested() or signals >= SIGNALS_A_RUN
