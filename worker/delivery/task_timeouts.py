"""How long a worker may take for a workflow task, before Temporal gives the task to another worker.

The timeout delays pods only if a worker is killed during a task of theirs. The next worker has to start first, so a timeout of
the length of a start costs nothing, and on a slow machine tasks take longer, too.
"""

from datetime import timedelta
from typing import Final

SHORTEST: Final = timedelta(seconds=3)
"""For a machine of the usual speed."""
LONGEST: Final = timedelta(seconds=30)


def task_timeout(start: float) -> timedelta:
    """Return the timeout on a machine where the start of a process takes this many CPU seconds."""
    return min(max(SHORTEST, timedelta(seconds=start)), LONGEST)


def taken_within(timeout: timedelta) -> timedelta:
    """Return how long a task waits for the worker that has the run in its cache, before any worker may take it and replay the run.

    That delays what a worker leaves that is gone: a second on a machine of the usual speed, where the SDK's default is 10.
    """
    return timeout / 3


def may_be_due(usual: timedelta, timeout: timedelta) -> timedelta:
    """Return how long something may be due where tasks have this timeout; `usual` is for the shortest one."""
    return usual + timeout - SHORTEST
