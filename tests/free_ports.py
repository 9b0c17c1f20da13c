"""Loopback ports that nothing else takes before they are used.

The kernel gives ports from 32768 on to whoever asks for any port, and to outgoing connections, so a port of that range that was free may be
taken a moment later. Each test process has a hundred ports below it to itself.
"""

import atexit
import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Final

from tests.own_number import own_number
from worker.standalone.temporal_server import is_free

FIRST: Final = 12_000
EACH: Final = 100
PROCESSES: Final = range(200)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses; each comes again only after all others of this process."""
    return list(itertools.islice(filter(is_free, itertools.islice(_own_ports(), EACH)), count))


def free_port() -> int:
    """Return one."""
    return free_ports(1)[0]


@functools.cache
def _own_ports() -> Iterator[int]:
    held = contextlib.ExitStack()
    number = held.enter_context(own_number("tempolet-ports", PROCESSES))
    atexit.register(held.close)  # keeps the number until the process ends
    first = FIRST + number * EACH
    return itertools.cycle(range(first, first + EACH))
