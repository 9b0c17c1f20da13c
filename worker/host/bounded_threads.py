"""Threads enough for files that do not answer.

Asked by the worker once it runs. A file system whose server is gone keeps every thread that looks at it, perhaps for ever;
asyncio has six of them on two cores, and with these taken no pod of the node could start or stop. So a thread that is at one
thing for a second is counted out and another one made when there is work for it. On a node whose files answer there are
six, for more would only be in each other's way.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, Final, ParamSpec, TypeVar

USUAL: Final = 6
MOST: Final = 500
HUNG_AFTER: Final = 1.0
"""Seconds; also how often is looked while work waits."""
_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def install_bounded_thread_pool() -> None:
    """Let the running loop have them."""
    asyncio.get_running_loop().set_default_executor(BoundedThreadPool(asyncio.get_running_loop()))


class BoundedThreadPool(ThreadPoolExecutor):
    """Threads of which so many are free for work, whatever the others wait for; asked by one loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, usual: int = USUAL) -> None:
        super().__init__(usual, thread_name_prefix="files")
        self._usual, self._loop, self._looks = usual, loop, False
        self._begun: dict[int, float] = {}
        """When each thread that works began with what it is at."""

    def submit(
        self, fn: Callable[_Arguments, _Answer], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Answer]:
        """Have something done; raises RuntimeError after the end."""
        future: Future[_Answer] = super().submit(self._timed, fn, args, kwargs)
        if not self._looks:
            self._looks = True
            self._loop.call_later(HUNG_AFTER, self._look)
        return future

    def _timed(self, work: Callable[..., _Answer], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Answer:
        self._begun[threading.get_ident()] = monotonic()
        try:
            return work(*args, **kwargs)
        finally:
            self._begun.pop(threading.get_ident(), None)

    def _look(self) -> None:
        """Make a thread for each that hangs, while there is work that waits."""
        self._looks = waiting = self._work_queue.qsize() > 0
        if not waiting:
            return
        since = monotonic() - HUNG_AFTER
        hung = sum(begun < since for begun in list(self._begun.values()))
        self._max_workers = min(self._usual + hung, MOST)
        for _ in range(self._usual):
            self._adjust_thread_count()
        self._loop.call_later(HUNG_AFTER, self._look)
