"""Returns freed heap memory to the kernel, and keeps what a process has loaded out of Python's garbage collections.

Called at intervals by processes that run for months: starting 110 pods at once leaves megabytes of freed heap in
glibc's arenas, below a few long-lived objects. A trim takes one or two milliseconds; other C libraries have no such
call. A full collection holds the event loop for as long as it visits objects: 60 ms for the 135,000 of loaded modules.
"""

import ctypes
import gc
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Final

from worker.daemon.background import in_background, repeat

_libc: Final = ctypes.CDLL(None)
_trim: Final[Callable[[int], int] | None] = getattr(_libc, "malloc_trim", None)


def giving_back_freed_memory(every: timedelta) -> AbstractAsyncContextManager[None]:
    """Return freed memory to the kernel at an interval while the block runs; what is loaded by now is never collected."""
    gc.collect()
    gc.freeze()

    async def give_back() -> None:
        give_back_freed_memory()

    return in_background("freed memory", partial(repeat, every, give_back))


def give_back_freed_memory() -> None:
    """Return freed memory to the kernel."""
    if _trim is not None:
        _trim(0)
