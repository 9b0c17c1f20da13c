"""Watches for shutdowns of the machine, and holds the lock that delays them.

A thread has the connection to logind; what it learns is told on the event loop. Order, words and pauses are the kubelet's
(pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go start), except that signals are followed before the lock is taken, that a first connection that fails
is tried again, too, and that a shutdown under way at the start is not missed.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from activities.clients.systemd.logind import Connection, Logind, logind, release, system_bus
from worker.host.shutdown.drop_in import FOLDER, write_drop_in

RECONNECT: Final = 1.0
"""Seconds (dbusReconnectPeriod)."""
_POLLS: Final = (0.1, 0.2, 0.4, 0.8)
"""Seconds between looks whether logind has read its configuration again."""

_log: Final = structlog.get_logger(__name__)


class _Locked(NamedTuple):
    """A lock was taken."""

    lock: int


class _Heard(NamedTuple):
    """A shutdown begins, or was cancelled."""

    begins: bool


_News = _Locked | _Heard | BaseException


class ShutdownWatch:
    """The watch of one worker process; `run` it once. `told` takes whether a shutdown begins or was cancelled."""

    def __init__(
        self,
        delay: timedelta,
        told: Callable[[bool], Awaitable[None]],
        *,
        bus: Path | None = None,
        drop_ins: Path = FOLDER,
    ) -> None:
        self._delay, self._told = delay, told
        self._bus, self._drop_ins = bus or system_bus(), drop_ins
        self._lock: int | None = None
        self._failed = ""

    @property
    def lock(self) -> int | None:
        """The lock for which a shutdown waits."""
        return self._lock

    def release(self, lock: int | None = None) -> None:
        """Let the machine go down; with `lock` only if that is still the one that is held."""
        if self._lock is not None and lock in (None, self._lock):
            release(self._lock)
            self._lock = None

    async def run(self) -> None:
        """Watch until cancelled; a connection that is lost is made anew."""
        try:
            while True:
                try:
                    await self._follow()
                except OSError as error:
                    self._say(str(error))
                await asyncio.sleep(RECONNECT)
        finally:
            self.release()

    async def _follow(self) -> None:
        """Follow one connection until it is lost; raises OSError."""
        loop, connection = asyncio.get_running_loop(), Connection()
        heard: asyncio.Queue[_News] = asyncio.Queue()

        def tell(one: _News) -> None:
            try:
                loop.call_soon_threadsafe(heard.put_nowait, one)
            except RuntimeError:  # the loop has ended
                if isinstance(one, _Locked):
                    release(one.lock)

        thread = threading.Thread(target=self._in_thread, args=(connection, tell), name="logind", daemon=True)
        thread.start()
        try:
            while True:
                match await heard.get():
                    case _Locked(lock):
                        self.release()
                        self._lock = lock
                        self._works()
                    case _Heard(begins):
                        await self._told(begins)
                    case BaseException() as error:
                        raise error
        finally:
            connection.shut()
            while not heard.empty():
                if isinstance(one := heard.get_nowait(), _Locked):
                    release(one.lock)

    def _in_thread(self, connection: Connection, tell: Callable[[_News], None]) -> None:
        try:
            with logind(connection, self._bus) as client:
                self._raise_delay(client)
                client.follow()
                if client.is_preparing():
                    tell(_Heard(begins=True))  # logind would refuse a lock by now
                else:
                    tell(_Locked(client.inhibit()))
                while True:
                    begins = client.next_event()
                    if not begins:
                        tell(_Locked(client.inhibit()))
                    tell(_Heard(begins))
        except BaseException as error:  # noqa: BLE001 - raised on the event loop
            tell(error)

    def _raise_delay(self, client: Logind) -> None:
        """Have logind allow what is configured; raises OSError if it does not do so soon."""
        if (allowed := client.delay()) >= self._delay:
            return
        write_drop_in(self._delay, self._drop_ins)
        client.reload()
        for pause in _POLLS:
            time.sleep(pause)  # logind tells nobody that it has read its configuration
            if (allowed := client.delay()) >= self._delay:
                return
        raise TimeoutError(
            f"logind allows a delay of {allowed.total_seconds():.0f} s (InhibitDelayMaxSec), but shutdownGracePeriod needs "
            f"{self._delay.total_seconds():.0f} s; look for another file that sets it below /etc/systemd/logind.conf.d"
        )

    def _say(self, why: str) -> None:
        """Log a failure once."""
        if why != self._failed:
            _log.warning("a shutdown of this machine would not wait for its pods; trying again", err=why)
        self._failed = why

    def _works(self) -> None:
        if self._failed:
            _log.info("a shutdown of this machine waits for its pods again")
        self._failed = ""
