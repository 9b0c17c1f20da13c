"""An event loop whose clock jumps to the next timer when nothing else is to be done, so that waiting costs no time.

For tests that await what shall happen, or not happen, after a while. Its time is no real one: what comes from a socket or a
thread while a timer is pending would come too late, so tests with those keep the ordinary loop.
"""

import asyncio
import selectors


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: what it would have waited is added to its time."""

    now = 1000.0  # of a machine that has been up for a while

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look for what is ready; only without any timer wait for it."""
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
        """Say its own time, in seconds."""
        return self._clock.now
