"""A bounded cache whose entries expire; concurrent lookups of one key share one request."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from functools import partial
from typing import Final, Generic, TypeVar

from activities.execution.single_flight import SingleFlight

TASK_NAME: Final = "lookup for a cache"
"""Name of the task that looks up an answer."""
Answer = TypeVar("Answer")


class TimedCache(Generic[Answer]):
    """Answers by key; `ask` returns an answer and how long it is valid. Used from one event loop."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        """Take the maximum number of entries and a monotonic clock in seconds."""
        self._most = most
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, Answer]] = OrderedDict()
        self._asking: SingleFlight[Answer] = SingleFlight()

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[tuple[Answer, timedelta]]]) -> Answer:
        """Return the cached answer or look it up; concurrent callers share one lookup. Errors are not cached.

        A lookup that no caller waits for any more is cancelled, so that clients which disconnect leave none behind.
        """
        found = self._answers.get(key)
        if found is not None and found[0] > self._clock():
            return found[1]
        return await self._asking.run(key, partial(self._asked, key, ask), TASK_NAME)

    async def _asked(self, key: Hashable, ask: Callable[[], Awaitable[tuple[Answer, timedelta]]]) -> Answer:
        answer, holds = await ask()
        self._answers.pop(key, None)
        if holds > timedelta(0):
            self._answers[key] = (self._clock() + holds.total_seconds(), answer)
        while len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return answer
