"""A bounded thread pool for file systems that may hang.

Installed by the worker as the event loop's default executor. If the server of a network file system is gone, every
thread that touches it hangs, perhaps for ever. asyncio has six threads on two cores; once they hang, no pod of the node
could start or stop. So a thread that has been busy for a second is not counted, and another one is started while work
is queued. On a node without hanging file systems there are six, because more would only compete.
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
"""Seconds; also the interval of checks while work is queued."""
_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def install_bounded_thread_pool() -> None:
    """Make this pool the running loop's default executor."""
    asyncio.get_running_loop().set_default_executor(BoundedThreadPool(asyncio.get_running_loop()))


class BoundedThreadPool(ThreadPoolExecutor):
    """A thread pool in which busy threads do not count towards its usual size; used by one loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, usual: int = USUAL) -> None:
        super().__init__(usual, thread_name_prefix="files")
        self._usual, self._loop, self._looks = usual, loop, False
        self._begun: dict[int, float] = {}
        """When each busy thread started its current task."""

    def submit(
        self, fn: Callable[_Arguments, _Answer], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Answer]:
        """Run a function in the pool; raises RuntimeError after shutdown."""
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
        """Start a thread for each that hangs, while work is queued; none once the pool is shut down, which iterates over them."""
        with self._shutdown_lock:
            self._looks = waiting = not self._shutdown and self._work_queue.qsize() > 0
            if not waiting:
                return
            since = monotonic() - HUNG_AFTER
            hung = sum(begun < since for begun in list(self._begun.values()))
            self._max_workers = min(self._usual + hung, MOST)
            for _ in range(self._usual):
                self._adjust_thread_count()
        self._loop.call_later(HUNG_AFTER, self._look)
