"""The journal of one pod, as its driver writes it: in order, in a thread, and never for longer than the pod can wait.

Whatever the disk does, the pod goes on: an entry that cannot be written is logged, and missing in the story.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from proto.temporal.away import StoryEntry

WRITTEN_WITHIN: Final = timedelta(seconds=5)
"""How long the loop waits for a disk that hangs; afterwards it does not wait at all until the disk answers."""
MOST_WAITING: Final = 1000
"""Entries that wait for the disk; more are left out."""

_log: Final = logging.getLogger(__name__)


class Journal(Protocol):
    """The node's journal (`journal/`)."""

    def keep(self, workflow_id: str, start: Any, place: Any, *, folded: int = 0) -> None:
        """Keep a state; returns before it is written."""
        ...

    def append(self, workflow_id: str, entry: StoryEntry, *, batched: bool = False) -> int:
        """Append an entry; returns its position. Blocks; raises an Exception."""
        ...

    def flush(self, workflow_id: str, timeout: timedelta) -> bool:
        """Wait until the newest state is on disk; blocks."""
        ...


@dataclass(slots=True)
class _Waiting:
    entry: StoryEntry
    written: "asyncio.Future[int] | None"
    """Set to its position; None: nobody waits for it."""


class PodJournal:
    """The journal of one workflow; use it from one event loop."""

    def __init__(
        self,
        journal: Journal,
        workflow_id: str,
        place: Any,
        folded: int = 0,
        *,
        in_thread: Callable[..., Awaitable[Any]] = asyncio.to_thread,
    ) -> None:
        """Take the workflow's id, where in Temporal it was, and the position of the last entry that the lead begins with."""
        self._journal, self._workflow_id, self._place = journal, workflow_id, place
        self._in_thread = in_thread
        self._waiting: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._hangs = False
        self._folded = folded
        """The loop has all entries up to this position."""

    def note(self, entry: StoryEntry) -> None:
        """Append an entry for the story, which a state does not depend on; returns at once."""
        self._put(_Waiting(entry, None))

    async def record(self, entry: StoryEntry) -> None:
        """Append an entry that the caller folds next; returns once it is on disk, or cannot be written."""
        written = asyncio.get_running_loop().create_future()
        self._put(_Waiting(entry, written))
        if self._hangs:
            return
        done, _ = await asyncio.wait([written], timeout=WRITTEN_WITHIN.total_seconds())
        if done:
            self._folded = max(self._folded, written.result())
        elif not self._hangs:
            self._hangs = True
            _log.error("the journal does not answer, the pod %s goes on without it", self._workflow_id)

    def keep(self, start: Any) -> None:
        """Keep the state of the loop."""
        self._journal.keep(self._workflow_id, start, self._place, folded=self._folded)

    async def flush(self) -> None:
        """Return once the newest state is on disk, or cannot be written."""
        if not self._hangs:
            await self._in_thread(self._journal.flush, self._workflow_id, WRITTEN_WITHIN)

    async def close(self) -> None:
        """Wait for what is being written, for as long as a pod waits."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=WRITTEN_WITHIN.total_seconds())

    def _put(self, one: _Waiting) -> None:
        if len(self._waiting) >= MOST_WAITING:
            _left_out(one)
            return
        self._waiting.append(one)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = list(self._waiting), deque()
                positions = await self._in_thread(
                    self._append, [one.entry for one in batch], [*map(_is_awaited, batch)]
                )
                self._hangs = False
                for one, position in zip(batch, positions, strict=True):
                    if one.written is not None and not one.written.done():
                        one.written.set_result(position)
        finally:
            self._writing = None

    def _append(self, entries: list[StoryEntry], awaited: list[bool]) -> list[int]:
        """Append entries; those that nobody waits for get to the disk with the next one that somebody does. Position 0: not written."""
        positions = []
        for number, entry in enumerate(entries):
            synced = awaited[number] and not any(awaited[number + 1 :])
            try:
                positions.append(self._journal.append(self._workflow_id, entry, batched=not synced))
            except Exception as error:  # noqa: BLE001 - the pod goes on
                _log.error("an entry of %s is missing in its story: %s", self._workflow_id, error)
                positions.append(0)
        return positions


def _is_awaited(one: _Waiting) -> bool:
    return one.written is not None


def _left_out(one: _Waiting) -> None:
    if one.written is not None:
        one.written.set_result(0)
