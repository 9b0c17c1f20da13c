"""Copies bytes in both directions between two connections until one of them ends.

Used for an upgraded client and the runtime's streaming server. The protocol inside (SPDY, WebSocket) has its own way to close
one direction, so the end of a connection ends both, as in the kubelet's proxy, after pending bytes were delivered. Neither side
is read faster than the other one writes. It needs no task: 200 relays cost 400 descriptors and nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Final

FULL: Final = 64 * 1024
"""Bytes buffered for a side before reading from the other pauses; one more read is the most that is exceeded."""
DRAIN_SECONDS: Final = 10.0
"""How long a side may take to read pending bytes after the other has closed."""


class Relay:
    """Two sides; `done` is set when both connections are closed."""

    def __init__(self, idle_seconds: float) -> None:
        """Take the idle timeout in seconds; 0: none."""
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._sides: list[Side] = []
        self._idle = idle_seconds
        self.last_passed = self._loop.time()
        self._timer = self._loop.call_later(idle_seconds, self._check_idle) if idle_seconds else None

    def side(self, closed: Callable[[Exception | None], None] = lambda _: None) -> "Side":
        """Create a side; `closed` is called when its connection is closed."""
        made = Side(self, closed)
        self._sides.append(made)
        return made

    def other(self, side: "Side") -> asyncio.Transport | None:
        """Return the transport of the other side, if connected."""
        return next((one.transport for one in self._sides if one is not side), None)

    def ended(self, side: "Side") -> None:
        """Deliver pending bytes to the other side, then close it too."""
        if (other := self.other(side)) is not None and not other.is_closing():
            other.close()
            self._end_within(DRAIN_SECONDS)
        if all(one.transport is None for one in self._sides):
            self._finish()

    def abort(self) -> None:
        """Close both at once and drop pending bytes."""
        for one in self._sides:
            if one.transport is not None:
                one.transport.abort()

    def _check_idle(self) -> None:
        """Close idle connections, or check again later."""
        left = self.last_passed + self._idle - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle)
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
        """Start."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=FULL)

    def data_received(self, data: bytes) -> None:
        """Write it to the other side."""
        self._relay.last_passed = self._loop.time()
        if (other := self._relay.other(self)) is not None:
            other.write(data)

    def pause_writing(self) -> None:
        """Stop reading from the other side: this one's buffer is full."""
        if (other := self._relay.other(self)) is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading from the other side."""
        if (other := self._relay.other(self)) is not None:
            other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close both sides."""
        self.transport = None
        self._closed(exc)
        self._relay.ended(self)
