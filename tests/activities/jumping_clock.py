"""An event loop whose clock jumps to the next timer when nothing else is ready, so that waiting takes no time.

For tests of what happens, or does not happen, after a while. Its time is not real: data from a socket or a thread
would arrive too late if a timer is pending, so tests with those use the normal loop.
"""

import asyncio
import selectors


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: it adds the wait to its time."""

    now = 1000.0  # of a machine that has been up for a while

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; wait only if there is no timer."""
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0 if timeout else timeout)
        if timeout and not ready:
            self.now += timeout
        return ready


class JumpingClock(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return its own time, in seconds."""
        return self._clock.now
