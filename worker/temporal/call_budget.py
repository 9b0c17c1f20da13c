"""Spaces a process's calls to Temporal while Temporal says RESOURCE_EXHAUSTED.

One budget is shared by all calls of a process. Each such answer doubles the pause between any two calls, up to a minute;
each call that is served halves it. So a throttled Temporal gets less load, and the pauses of many nodes do not end
together. Without such answers calls do not wait.
"""

import random
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic as clock
from typing import Final

import structlog
from google.protobuf.message import DecodeError
from temporalio.api.enums.v1 import ResourceExhaustedCause
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.service import RPCError, RPCStatusCode

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
"""Seconds between two calls."""
BUSY: Final = ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW
_IS_FULL: Final = "limit for signal events"  # of Temporal's message: history.maximumSignalsPerExecution
JITTER: Final = 0.5
"""Share of a pause by which it varies."""

_log: Final = structlog.get_logger(__name__)


def is_throttling(error: RPCError) -> bool:
    """Report whether Temporal asks for fewer calls; a message that is too large has the same status, and a busy workflow."""
    if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED or is_too_large(error):
        return False
    return not is_busy(error)


def is_too_large(error: RPCError) -> bool:
    """Report whether the call's message is larger than gRPC takes, so that it will never be taken."""
    return "larger than max" in error.message


def is_full(error: RPCError) -> bool:
    """Report whether the run has taken as many signals as Temporal allows."""
    return _IS_FULL in error.message


def is_busy(error: RPCError) -> bool:
    """Report whether this one workflow takes no signal now, as while it waits to continue as new."""
    found = ResourceExhaustedFailure()
    try:
        return any(one.Unpack(found) and found.cause == BUSY for one in error.grpc_status.details)
    except DecodeError:  # of another server than Temporal
        return False


class CallBudget:
    """The budget of one process; used from one event loop."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._next_at = 0.0
        self._raised_at = 0.0

    @property
    def is_throttled(self) -> bool:
        """Report whether calls wait now."""
        return self._pause > 0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Wait until the call in the block may be made, and learn from its outcome."""
        begun = await self._turn()
        try:
            yield
        except RPCError as error:
            if is_throttling(error):
                self._throttled(begun, error)
            raise
        self._served()

    async def _turn(self) -> float:
        while self._pause and (wait := self._next_at - clock()) > 0:  # noqa: ASYNC110 - a pause, which nothing ends early
            await sleep(wait)  # then looked at again: another call may have come first
        if self._pause:
            self._next_at = clock() + self._spread()
        return clock()

    def _throttled(self, begun: float, error: RPCError) -> None:
        """Double the pause, once for all calls that were under way together."""
        if begun < self._raised_at:
            return
        if not self._pause:
            _log.warning("Temporal is throttling: calls are spaced until it is not", err=error.message)
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        self._raised_at = clock()
        self._next_at = self._raised_at + self._spread()

    def _served(self) -> None:
        if not self._pause:
            return
        self._pause = self._pause / 2 if self._pause > FIRST_PAUSE else 0.0
        if not self._pause:
            _log.info("Temporal is not throttling any more")

    def _spread(self) -> float:
        return self._pause * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spread, not secrecy
