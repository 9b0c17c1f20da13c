"""One piece of work for all who ask for the same: a pull of an image, a credential provider's answer.

Who asks may leave; the work ends when nobody waits for it any more.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Work(Generic[Answer]):
    """Work under way and the number of those who wait for it."""

    task: asyncio.Task[Answer]
    waiting: int = 0


@dataclass(slots=True)
class SingleFlight(Generic[Answer]):
    """Work under way, by what it is about."""

    _under_way: dict[object, _Work[Answer]] = field(default_factory=dict)

    async def run(self, key: object, begin: Callable[[], Coroutine[Any, Any, Answer]], name: str) -> Answer:
        """Begin the work, or wait for that which is under way; answers what it answers, raises what it raises."""
        work = self._under_way.get(key)
        if work is None:
            work = self._under_way[key] = _Work(asyncio.create_task(begin(), name=name))
        work.waiting += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.waiting -= 1
            if work.waiting == 0:
                work.task.cancel()
                if self._under_way.get(key) is work:
                    del self._under_way[key]
