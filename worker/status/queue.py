"""A work queue that holds each key once, however often it was added.

Used by the keeper from one event loop (client-go util/workqueue, without its rate limiter). A key that is added while it is
processed is processed again afterwards.
"""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class WorkQueue(Generic[_Key]):
    """Keys in the order in which they were first added."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[_Key] = asyncio.Queue()
        self._waiting: set[_Key] = set()
        self._busy: set[_Key] = set()
        self._later: dict[_Key, asyncio.TimerHandle] = {}

    def add(self, key: _Key) -> None:
        """Add a key."""
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        if key not in self._waiting:
            self._waiting.add(key)
            if key not in self._busy:
                self._ready.put_nowait(key)

    def add_after(self, key: _Key, seconds: float) -> None:
        """Add a key after a delay, unless it is added before."""
        if key not in self._later and key not in self._waiting:
            self._later[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def get(self) -> _Key:
        """Wait for the next key; it is in progress until `done`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: _Key) -> None:
        """Mark a key as processed, successfully or not."""
        self._busy.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)
