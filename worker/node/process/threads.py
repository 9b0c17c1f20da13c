"""Threads for what the node itself has to know, apart from those of whoever asks it something.

asyncio's own threads are few (six on two cores) and everybody's: scrapes, logs, lists of pods. Where these hang on a file system, or
only take long, the node's status and certificates would wait behind them, and it would be NotReady for a reader of a log.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_Found = TypeVar("_Found")
_OWN: Final = ThreadPoolExecutor(4, "node")


async def in_node_thread(work: Callable[_P, _Found], *args: _P.args, **named: _P.kwargs) -> _Found:
    """Do what blocks, for a part of the node that nobody else's work may hold up."""
    return await asyncio.get_running_loop().run_in_executor(_OWN, partial(work, *args, **named))
