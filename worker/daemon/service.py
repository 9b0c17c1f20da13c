"""The protocol with systemd: READY, STATUS, WATCHDOG and STOPPING; SIGTERM and SIGINT.

Used for the whole life of each service (`async with Service(health) as service`). Outside systemd only the signals
matter. The watchdog is fed by the event loop, so a stuck loop stops feeding it, and only while `health` returns no
reason against it. systemd then kills the process (SIGABRT, so that faulthandler writes every thread's stack to the
journal) and starts it again. `health` must therefore report only what a restart fixes: that Temporal or containerd is
down is shown by `status`.
"""

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import time
from collections.abc import Callable, MutableMapping
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import structlog

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_FED_PER_LIMIT: Final = 3  # systemd asks for two; a third allows for a slow machine
_LONGEST_STATUS: Final = 500  # characters of one line in `systemctl status`

log = structlog.get_logger(__name__)


class Notifier:
    """sd_notify: datagrams to systemd's socket; without one, nothing is sent."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")  # removed, so that a child process cannot notify for us
        limit, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        ours = pid in {"", str(os.getpid())}
        self.watchdog = timedelta(microseconds=int(limit)) if address and limit.isdecimal() and ours else None

    def send(self, *lines: str) -> None:
        """Send a notification; a failure is logged, never raised."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
            try:
                speaker.sendto("\n".join(lines).encode(), self._address)
            except OSError as error:
                log.warning("could not notify systemd", lines=lines, error=str(error))


class Service:
    """Notifies systemd about one process, and waits for the request to stop."""

    def __init__(self, health: Callable[[], str], environment: MutableMapping[str, str] | None = None) -> None:
        """Take a quick function, called on the event loop, that returns a reason to be restarted or an empty string."""
        self._health = health
        self._notifier = Notifier(os.environ if environment is None else environment)
        self.started_in = time.process_time()
        """CPU seconds that the process took to come here: a measure of the machine's speed."""
        self.is_ready = False
        """It has told that it is ready."""
        self._stop = asyncio.Event()
        self._feeding: asyncio.Task[None] | None = None
        self._status = ""
        self._notes: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Handle signals and start to feed the watchdog."""
        if not faulthandler.is_enabled():
            with contextlib.suppress(OSError, ValueError):  # stderr may not be a file
                faulthandler.enable()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._asked_to_stop, number)
        if self._notifier.watchdog is not None:
            self._feeding = asyncio.create_task(self._feed(self._notifier.watchdog / _FED_PER_LIMIT))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Notify systemd of the stop, and restore the signal handlers."""
        self.stopping()
        if self._feeding is not None:
            self._feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._feeding
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    @property
    def is_stopping(self) -> bool:
        """Whether the stop was requested."""
        return self._stop.is_set()

    def ready(self, status: str) -> None:
        """Notify systemd that the service is ready."""
        self._status, self.is_ready = status, True
        self._notifier.send("READY=1", f"STATUS={self.line}")

    def status(self, text: str) -> None:
        """Set the status line; an unchanged one is not sent again."""
        before, self._status = self.line, text
        self._send_changed(before)

    def note(self, text: str, about: str = "") -> None:
        """Set what stands behind every status, such as what is awaited; empty: nothing. Each subject has a note of its own."""
        before = self.line
        self._notes[about] = text
        self._send_changed(before)

    @property
    def line(self) -> str:
        """Return the status line."""
        return _one_line("; ".join(filter(None, (self._status, *self._notes.values()))))

    def _send_changed(self, before: str) -> None:
        if (line := self.line) != before:
            self._notifier.send(f"STATUS={line}")

    def stopping(self) -> None:
        """Notify systemd that the service is about to stop."""
        self._notifier.send("STOPPING=1", "STATUS=stopping")

    def stop(self) -> None:
        """Request the stop from within."""
        self._stop.set()

    async def stop_requested(self) -> None:
        """Wait until a signal or `stop` requests the stop."""
        await self._stop.wait()

    def _asked_to_stop(self, number: signal.Signals) -> None:
        if self._stop.is_set():  # a second signal: do not wait for a clean stop
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.raise_signal(number)
        log.info("asked to stop", signal=number.name)
        self._stop.set()

    async def _feed(self, interval: timedelta) -> None:
        while True:
            try:
                reason = self._health()
            except Exception as error:
                log.exception("the health check failed")
                reason = f"{type(error).__name__}: {error}"
            if reason:
                self._notifier.send(f"STATUS={_one_line(f'unhealthy, to be restarted: {reason}')}")
            else:
                self._notifier.send("WATCHDOG=1")
            await asyncio.sleep(interval.total_seconds())


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_STATUS]
