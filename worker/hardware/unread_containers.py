"""Waits for containers of which the runtime does not tell what they have, though a state file is lost.

Meanwhile nobody is given hardware, no container is told other CPUs, and the lost file is not written: else what such a container has
would be another pod's soon. All is read again until the runtime tells of each, or it is gone, or the wait is over. Made by the
worker process, run beside the loops of `of_this_node.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic
from typing import Final, Protocol

import structlog

from activities.clients.cri_error import CriError
from proto.cri.runtime_container import RuntimeContainer

LONGEST: Final = 300.0
"""Seconds for which new pods wait; a container that is broken for good does not keep them out for ever."""
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 30.0
UNREAD: Final = "ContainersUnread"
"""Why a pod waits, in one word."""
_SHOWN: Final = 3

_log: Final = structlog.get_logger(__name__)


class Reader(Protocol):
    """Reads what the runtime's containers have."""

    @property
    def was_incomplete(self) -> bool:
        """Report whether the reading by which hardware was given back lacks a container."""
        ...

    @property
    def unread(self) -> Collection[str]:
        """Return the ids of the containers that the last reading lacks."""
        ...

    async def read_again(self) -> Sequence[RuntimeContainer]:
        """Read all once more; raises CriError and TimeoutError."""
        ...


class UnreadContainers:
    """Those of one node; used from one event loop."""

    def __init__(self, reader: Reader | None = None, *, clock: Callable[[], float] = monotonic) -> None:
        """Take what reads; without it nothing is waited for."""
        self._reader, self._clock, self._is_over, self._since = reader, clock, False, clock()

    @property
    def why(self) -> str:
        """Say why nobody is given hardware; empty if there is no reason."""
        if self._is_over or self._reader is None or not self._reader.was_incomplete:
            return ""
        return waiting_for(self._reader.unread)

    def end(self) -> None:
        """Wait no longer."""
        self._is_over = True

    async def run(self, take: Callable[[Sequence[RuntimeContainer] | None], Awaitable[None]]) -> None:
        """Read again until nothing is unread, or for so long; `take` gets the last reading, and calls `end`."""
        reader, found, pause = self._reader, None, FIRST_PAUSE
        if reader is None or not self.why:
            return
        _log.warning("nobody is given hardware yet", why=self.why)
        while goes_on(reader.unread, self._clock() - self._since):
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                found = await reader.read_again()
            except (CriError, TimeoutError) as error:
                _log.warning("could not read what containers have to themselves", err=str(error))
        if reader.unread:
            _log.warning(
                "going on without the CPUs and the memory of containers of which the runtime does not tell",
                containers=sorted(reader.unread)[:_SHOWN],
            )
        await take(found)


def goes_on(unread: Collection[str], waited: float) -> bool:
    """Report whether hardware is still held back."""
    return bool(unread) and waited < LONGEST


def waiting_for(unread: Collection[str]) -> str:
    """Say what is waited for."""
    shown = ", ".join(sorted(unread)[:_SHOWN]) + (", ..." if len(unread) > _SHOWN else "")
    return (
        f"waiting, at most {LONGEST:g} s after the worker's start, for the runtime to tell which CPUs and memory {len(unread)} of its "
        f"containers have, because a state file of exclusive hardware is lost ({shown})"
    )
