"""Answers that are kept for a while: at most so many, the oldest go first, and one question is asked once at a time."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from functools import partial
from typing import Final, Generic, TypeVar

from activities.execution.single_flight import SingleFlight

KEPT: Final = "question whose answer is kept"
"""What a task is called that asks."""
Answer = TypeVar("Answer")


class Kept(Generic[Answer]):
    """Answers by key; `ask` gives one and how long it holds. Used from one event loop."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        """Take the most answers to keep, and a monotonic clock in seconds."""
        self._most = most
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, Answer]] = OrderedDict()
        self._asking: SingleFlight[Answer] = SingleFlight()

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[tuple[Answer, timedelta]]]) -> Answer:
        """Give the kept answer or ask; whoever asks for the same meanwhile waits for the same answer. Errors aren't kept.

        A question that nobody waits for any more is given up: who comes and goes must not leave one behind each time.
        """
        found = self._answers.get(key)
        if found is not None and found[0] > self._clock():
            return found[1]
        return await self._asking.run(key, partial(self._asked, key, ask), KEPT)

    async def _asked(self, key: Hashable, ask: Callable[[], Awaitable[tuple[Answer, timedelta]]]) -> Answer:
        answer, holds = await ask()
        self._answers.pop(key, None)
        if holds > timedelta(0):
            self._answers[key] = (self._clock() + holds.total_seconds(), answer)
        while len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return answer
