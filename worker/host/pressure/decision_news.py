"""Tells the node's workflow what the node decides under pressure without a victim: merged, and only a few times an hour.

Used by `evictions.py`. While nothing is short, nothing is sent. What cannot be sent now waits, within bounds; a worker that ends loses it, and
the log has it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from proto.temporal.node import NodeNews
from proto.temporal.signals import PressureJudged
from worker.delivery.pod_requests import UNANSWERED
from workflows.decide.node.pressure_decisions import Decision

MERGED_FOR: Final = timedelta(seconds=30)
"""How long the first of several decisions waits for others."""
MOST_AN_HOUR: Final = 4
"""Signals."""
AN_HOUR: Final = timedelta(hours=1)
AGAIN: Final = timedelta(minutes=1)
"""Until one that nobody took is sent again."""
MOST_WAITING: Final = 12
"""Kinds of decisions; the oldest is left out."""
LONGEST: Final = 1000
"""Characters of one."""

_log: Final = structlog.get_logger(__name__)
Send = Callable[[PressureJudged], Awaitable[None]]


@dataclass(slots=True)
class _Waiting:
    """Decisions of one kind."""

    since: datetime
    words: str
    times: int = 1

    def news(self) -> NodeNews:
        again = f" ({self.times} times, the last as told here)" if self.times > 1 else ""
        return NodeNews(self.since, f"{self.words[:LONGEST]}{again}")


class DecisionNews:
    """The decisions of one node that wait; used from one event loop."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[str, _Waiting] = {}
        self._some = asyncio.Event()
        self._sent: deque[float] = deque(maxlen=MOST_AN_HOUR)

    def tell(self, decision: Decision) -> None:
        """Take a decision; returns at once."""
        _log.info("decided under pressure", decision=decision.words)
        if known := self._waiting.get(decision.kind):
            known.words, known.times = decision.words, known.times + 1
        else:
            while len(self._waiting) >= MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[decision.kind] = _Waiting(datetime.now(UTC), decision.words)
        self._some.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(self._pause())
            self._some.clear()
            waiting, self._waiting = self._waiting, {}
            try:
                await self._send(PressureJudged(tuple(one.news() for one in waiting.values())))
            except UNANSWERED as error:
                _log.info("the node's workflow is not told of decisions now; trying again", err=str(error))
                await asyncio.sleep(AGAIN.total_seconds())
                self._keep(waiting)
            else:
                self._sent.append(asyncio.get_running_loop().time())

    def _pause(self) -> float:
        """Return how long to wait for more, and until one more signal may be sent in this hour."""
        until = self._sent[0] + AN_HOUR.total_seconds() if len(self._sent) == MOST_AN_HOUR else 0.0
        return max(MERGED_FOR.total_seconds(), until - asyncio.get_running_loop().time())

    def _keep(self, unsent: dict[str, _Waiting]) -> None:
        """Put back what was not sent, before what has come since."""
        for kind, one in self._waiting.items():
            if earlier := unsent.get(kind):
                earlier.words, earlier.times = one.words, earlier.times + one.times
            else:
                unsent[kind] = one
        self._waiting = dict(list(unsent.items())[-MOST_WAITING:])
        self._some.set()
