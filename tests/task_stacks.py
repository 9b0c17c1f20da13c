"""Where the tasks of an event loop are, for the log of a session that hangs."""

import asyncio
from collections.abc import Iterator
from typing import Any


def task_lines() -> Iterator[str]:
    """Describe each task of the running loop, and what it awaits, from the outermost coroutine on; none if no loop runs."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return
    for task in tasks:
        yield f"{task.get_name()}:"
        yield from _awaited(task.get_coro())


def _awaited(one: Any) -> Iterator[str]:
    """Follow the awaits; a coroutine of C code, as gRPC's are, has no frame, or one without a line."""
    while one is not None:
        frame = _first(one, "cr_frame", "gi_frame", "ag_frame")
        where = f" {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        yield f"  {getattr(one, '__qualname__', one)}{where}"
        one = _first(one, "cr_await", "gi_yieldfrom", "ag_await")


def _first(one: Any, *names: str) -> Any:
    return next(filter(None, (getattr(one, name, None) for name in names)), None)
