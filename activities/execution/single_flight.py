"""Runs one task for all concurrent callers with the same key (an image pull, a run of a credential provider).

A caller may be cancelled; the task is cancelled when no caller waits for it any more.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Work(Generic[Answer]):
    """A running task and the number of its callers."""

    task: asyncio.Task[Answer]
    waiting: int = 0


@dataclass(slots=True)
class SingleFlight(Generic[Answer]):
    """Running tasks by key."""

    _under_way: dict[object, _Work[Answer]] = field(default_factory=dict)

    async def run(self, key: object, begin: Callable[[], Coroutine[Any, Any, Answer]], name: str) -> Answer:
        """Start the task, or wait for the running one with this key; returns or raises what it does."""
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
