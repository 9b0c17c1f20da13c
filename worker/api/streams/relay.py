"""Bytes both ways between two connections, until one of them ends.

Asked by `passing`, for a client that has been upgraded and the runtime's streaming server. The protocol inside (SPDY, WebSocket)
is nobody's business here: it has its own way to say that one direction is over, so the end of a connection is the end of both,
as in the kubelet's proxy, after what is on its way has been delivered. Neither side is read faster than the other takes it.
No task runs for it: 200 of them are 400 descriptors and nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Final

FULL: Final = 64 * 1024
"""Bytes that may wait for a side before the other is not read any more; one read more than that is the most that waits."""
DRAIN_SECONDS: Final = 10.0
"""So long a side has to take what was on its way when the other ended."""


class Relay:
    """Two sides; `done` is set when both connections are closed."""

    def __init__(self, idle_seconds: float) -> None:
        """Make it; 0: no bounds on how long nothing passes."""
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._sides: list[Side] = []
        self._idle = idle_seconds
        self.last_passed = self._loop.time()
        self._timer = self._loop.call_later(idle_seconds, self._look) if idle_seconds else None

    def side(self, closed: Callable[[Exception | None], None] = lambda _: None) -> "Side":
        """Make a side; `closed` is told when its connection is."""
        made = Side(self, closed)
        self._sides.append(made)
        return made

    def other(self, side: "Side") -> asyncio.Transport | None:
        """Give the transport of the other side, if that is connected."""
        return next((one.transport for one in self._sides if one is not side), None)

    def ended(self, side: "Side") -> None:
        """Deliver what is on its way to the other side, then close that too."""
        if (other := self.other(side)) is not None and not other.is_closing():
            other.close()
            self._end_within(DRAIN_SECONDS)
        if all(one.transport is None for one in self._sides):
            self._finish()

    def abort(self) -> None:
        """Close both at once, whatever is on its way."""
        for one in self._sides:
            if one.transport is not None:
                one.transport.abort()

    def _look(self) -> None:
        """Close what has been idle for too long, or look again later."""
        left = self.last_passed + self._idle - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.abort()

    def _end_within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.abort)

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.done.done():
            self.done.set_result(None)


class Side(asyncio.Protocol):
    """One of the two connections."""

    def __init__(self, relay: Relay, closed: Callable[[Exception | None], None]) -> None:
        self._relay, self._closed = relay, closed
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=FULL)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._relay.last_passed = self._loop.time()
        if (other := self._relay.other(self)) is not None:
            other.write(data)

    def pause_writing(self) -> None:
        """Let the other side wait: this one does not take what it gets."""
        if (other := self._relay.other(self)) is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        """Let the other side go on."""
        if (other := self._relay.other(self)) is not None:
            other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End both."""
        self.transport = None
        self._closed(exc)
        self._relay.ended(self)
