"""The poller's calls to Temporal: so many at once, spaced while Temporal throttles, and what their errors mean.

Errors are classified by what the caller may do: after `TemporalUnavailable` it retries, after `CallRefused` it does
not. That a workflow does not exist is a return value, not an error. An unavailable Temporal is logged once, and once
when it is back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog
from temporalio.service import RPCError, RPCStatusCode

from worker.delivery.lead import NameTaken
from worker.temporal.call_budget import CallBudget, is_busy, is_full, is_throttling, is_too_large

MOST_CALLS: Final = 16
"""Concurrent calls: 110 manifests at once would otherwise time out on a small node's Temporal."""
_NOT_PASSING: Final = frozenset(
    {
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.OUT_OF_RANGE,
    }
)

_log: Final = structlog.get_logger(__name__)


class TemporalUnavailable(Exception):
    """Temporal did not answer: the call may or may not have arrived, and must be repeated later."""


class NumberOutdated(TemporalUnavailable):
    """A message was numbered before the numbers were settled: it is needed again, with another number."""


class RunFull(TemporalUnavailable):
    """The run has taken as many signals as Temporal allows: another one must take its place."""


class CallRefused(Exception):
    """Temporal refuses this call and would refuse it again; the message is Temporal's."""


def is_away(error: Exception) -> bool:
    """Report whether a call failed because Temporal did not answer."""
    return isinstance(error, TemporalUnavailable) and not isinstance(error, NumberOutdated | RunFull)


class TemporalCalls:
    """The calls of one process; used from one event loop."""

    def __init__(self, require_name: Callable[[], Awaitable[None]]) -> None:
        """Take what raises NameTaken while nothing may be sent to Temporal."""
        self._require_name = require_name
        self._permits = asyncio.Semaphore(MOST_CALLS)
        self.budget = CallBudget()
        """Of all calls of the process."""
        self._away_since: float | None = None

    @asynccontextmanager
    async def call(self, doing: str) -> AsyncIterator[None]:
        """Make the call in the block when it is its turn; raises TemporalUnavailable and CallRefused."""
        async with self._permits:
            try:
                await self._require_name()
            except NameTaken as error:
                raise TemporalUnavailable(str(error)) from error
            try:
                async with self.budget.call():
                    yield
            except RPCError as error:
                if is_throttling(error) or is_busy(error):
                    raise TemporalUnavailable(error.message) from error  # logged by the budget
                if is_full(error):
                    raise RunFull(error.message) from error
                if error.status in _NOT_PASSING or is_too_large(error):
                    self._note_back()
                    raise CallRefused(f"Temporal refuses to {doing}: {error.message}") from error
                self._note_away(doing, error)
                raise TemporalUnavailable(error.message) from error
            except RuntimeError as error:  # raised by the SDK's core if it cannot connect
                self._note_away(doing, error)
                raise TemporalUnavailable(str(error)) from error
            self._note_back()

    def _note_away(self, doing: str, error: Exception) -> None:
        if self._away_since is None:
            self._away_since = asyncio.get_running_loop().time()
            _log.warning("Temporal is unavailable: pods keep running, retrying", doing=doing, err=str(error))

    def _note_back(self) -> None:
        if self._away_since is not None:
            seconds = asyncio.get_running_loop().time() - self._away_since
            self._away_since = None
            _log.info("Temporal is available again", away_seconds=round(seconds, 1))
