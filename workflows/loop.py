"""What the loops of both workflows have in common: actions go on beside them, and the next thing to happen is waited for.

Nothing here decides. What an action comes back with and what is said are filed alike, in the order in which they arrive; a
defect is raised in the loop, where it fails the workflow task and is seen.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import CancelledError

from workflows.decide.actions import Wake

SIGNALS_A_RUN: Final = 2000
"""Temporal rejects signals beyond 10,000 in one run."""
Arrival = TypeVar("Arrival")


class ArrivalLoop(Generic[Arrival]):
    """A workflow that waits for arrivals."""

    arrived: deque[Arrival]
    """Not written down yet."""
    bugs: list[Exception]

    async def file_when_done(self, coming: Callable[[], Awaitable[Arrival]]) -> None:
        """File what an action comes back with; nothing of one that was given up."""
        try:
            self.arrived.append(await coming())
        except (asyncio.CancelledError, CancelledError):
            return
        except Exception as bug:  # noqa: BLE001 - raised in the loop, where it fails the workflow task and is seen
            self.bugs.append(bug)

    async def next_arrival(self, wake: Wake | None, when_cancelled: str) -> bool:
        """Wait until something arrives or it is time to wake; says whether anything has. Raises a defect."""
        timeout = max(wake.at - workflow.now(), timedelta(milliseconds=1)) if wake else None
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


def has_grown(signals: int) -> bool:
    """Say whether this run's history has grown enough."""
    return workflow.info().is_continue_as_new_suggested() or signals >= SIGNALS_A_RUN
