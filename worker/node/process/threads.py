"""A thread pool for the node's own work, separate from requests.

asyncio's default pool is small (six threads on two cores) and shared with scrapes, logs and pod lists. If those are slow or
hang on a file system, the node's status and certificates would wait behind them, and the node would become NotReady.
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
    """Run a blocking function in the node's own thread pool."""
    return await asyncio.get_running_loop().run_in_executor(_OWN, partial(work, *args, **named))
