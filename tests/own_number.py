"""Numbers that keep test sessions and clusters on one machine apart: their bridges, subnets and cgroups."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOCKS: Final = Path("/run/lock")


class NoNumberLeft(Exception):
    """All numbers are taken; the message says how to see by what."""


@contextlib.contextmanager
def own_number(of: str, numbers: range) -> Iterator[int]:
    """Hold a number that nobody else on this machine has while the block runs; raises NoNumberLeft.

    The lock file is never removed: another process may have just opened it.
    """
    LOCKS.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        with (LOCKS / f"{of}-{number}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            return
    raise NoNumberLeft(f"all {len(numbers)} numbers are taken: look at {LOCKS}/{of}-*")
