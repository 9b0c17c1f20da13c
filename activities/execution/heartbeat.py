"""Heartbeats of long activities.

Wrapped around everything that may take over a second. A cancellation arrives only with a heartbeat. The first one is
sent only after a while: most activities end before, and each heartbeat has a cost.

The work says what it does (`heartbeating`); each attempt that waits for it sends that (`beating`). Outside the registry
of running actions the same block does both.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final

from activities.execution.attempt import current_attempt
from activities.execution.running_actions import Work, current_work
from proto.temporal.activities.heartbeats import Waits

LONGEST_PAUSE: Final = timedelta(seconds=20)
_SHARE: Final = 3
"""Heartbeats in one heartbeat timeout: two may be lost."""


class Heartbeat:
    """What a work says of itself; `say` changes it."""

    def __init__(self, details: object) -> None:
        self.details = self._doing = details
        self._waits: list[str] = []

    def wait_for(self, what: str, *, at_once: bool) -> None:
        """Say that the work waits until something holds."""
        self._waits.append(what)
        (self.say_now if at_once else self.say)(self._with_waits())

    def waited_for(self, what: str) -> None:
        """Say that this wait is over."""
        self._waits.remove(what)
        self.say(self._with_waits())

    def _with_waits(self) -> object:
        return Waits(str(self._doing), tuple(self._waits)) if self._waits else self._doing

    def say(self, details: object) -> None:
        """Set the details of the next heartbeats; never a secret."""
        self.details = details

    def say_now(self, details: object) -> None:
        """Set the details and send them at once."""
        self.say(details)
        current_attempt().say(details)


class _OfWork(Heartbeat):
    """The same for a work of the registry, which others send."""

    def __init__(self, work: Work, details: object) -> None:
        super().__init__(details)
        self._work = work
        work.details = details

    def say(self, details: object) -> None:
        self.details = self._work.details = details

    def say_now(self, details: object) -> None:
        self.say(details)
        for send in self._work.listeners:
            send()


class Beats:
    """The heartbeats of one attempt."""

    def __init__(self) -> None:
        self._work: Work | None = None
        self._attempt = current_attempt()

    def follow(self, work: Work) -> Callable[[], None]:
        """Send what this work says from now on; returns what sends it at once."""
        self._work = work
        return self.send

    def send(self) -> None:
        """Send a heartbeat; before the work has said anything, with what the earlier try said."""
        if self._work is not None and self._work.details is not None:
            self._attempt.say(self._work.details)
        else:
            self._attempt.say(*self._attempt.earlier)


_heart: ContextVar[Heartbeat | None] = ContextVar("heart", default=None)


@contextmanager
def waiting_until(what: str, *, at_once: bool = False) -> Iterator[None]:
    """Name what the activity waits for in its heartbeats while the block runs, as a clause that will hold; never a secret.

    `at_once` sends a heartbeat now, for a wait that is rare and long; else the next one has it.
    """
    heart = _heart.get()
    if heart is None:
        yield
        return
    heart.wait_for(what, at_once=at_once)
    try:
        yield
    finally:
        heart.waited_for(what)


def earlier_details() -> Sequence[Any]:
    """Return what the earlier try of this activity said last; what ended in this process is known without Temporal."""
    work = current_work()
    return current_attempt().earlier if work is None or work.earlier is None else (work.earlier,)


@contextmanager
def beating() -> Iterator[Beats]:
    """Send an attempt's heartbeats while the block runs."""
    beats, timeout = Beats(), current_attempt().heartbeat_timeout
    with _repeated(beats.send, timeout):
        yield beats


@asynccontextmanager
async def heartbeating(details: object) -> AsyncIterator[Heartbeat]:
    """Say what the block does in heartbeats, at a third of the activity's heartbeat timeout; without one, none."""
    work, attempt = current_work(), current_attempt()
    heart = Heartbeat(details) if work is None else _OfWork(work, details)
    outer = _heart.get()
    _heart.set(heart)
    timeout = attempt.heartbeat_timeout if work is None else None  # those who wait for the work send its details
    try:
        with _repeated(lambda: attempt.say(heart.details), timeout):
            yield heart
    finally:
        _heart.set(outer)


@contextmanager
def _repeated(send: Callable[[], None], timeout: timedelta | None) -> Iterator[None]:
    if timeout is None:
        yield
        return
    pause = min(timeout / _SHARE, LONGEST_PAUSE).total_seconds()
    loop = asyncio.get_running_loop()

    def beat() -> None:
        send()
        timers.append(loop.call_later(pause, beat))
        timers.pop(0)

    timers = [loop.call_later(pause, beat)]
    try:
        yield
    finally:
        timers[0].cancel()
