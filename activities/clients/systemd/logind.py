"""logind: how long it lets a shutdown be delayed, the lock that delays one, and word of the next one.

Used by the worker while a graceful shutdown is configured (`worker/host/shutdown/watch.py`). One connection to the system's bus, in a thread
of its own, because it waits for signals for as long as the machine runs. Calls, names and words are the kubelet's
(pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go).

The usual policy of the system's bus lets every user send every signal to all (`<allow send_type="signal"/>`; logind's own policy only says who may
call logind). So a signal that tells of a shutdown is taken only from connections of root; a message has no user, but the bus knows that of its
sender. A sender that is gone by then, as `gdbus emit` soon is, cannot be asked about. It is root's if nobody else may connect to the bus;
else it is not heard. logind itself is never gone. The kubelet takes the signal from everybody.
"""

import contextlib
import os
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from jeepney import DBusAddress, HeaderFields

from activities.clients.systemd.bus import MANAGER_ADDRESS, SYSTEM_BUS, Bus, Received, opened_bus

SECONDS: Final = 30.0
"""The time of one call, with the connection."""
LOGIND: Final = "org.freedesktop.login1"
INTERFACE: Final = f"{LOGIND}.Manager"
PATH: Final = "/org/freedesktop/login1"
SIGNAL: Final = "PrepareForShutdown"
SERVICE: Final = "systemd-logind.service"
SIGHUP: Final = 1
ADDRESS_VARIABLE: Final = "DBUS_SYSTEM_BUS_ADDRESS"
_ADDRESS: Final = DBusAddress(PATH, LOGIND, INTERFACE)
_PROPERTIES: Final = DBusAddress(PATH, LOGIND, "org.freedesktop.DBus.Properties")
_WHAT: Final = ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")
_MOST_KNOWN: Final = 256

_log: Final = structlog.get_logger(__name__)


def system_bus() -> Path:
    """Return the socket of the system's bus, elsewhere only if the variable of D-Bus names a path."""
    address = os.environ.get(ADDRESS_VARIABLE, "")
    path = address.removeprefix("unix:path=").partition(",")[0]
    return Path(path) if path != address and path else SYSTEM_BUS


class Logind:
    """One connection; use it in `logind`. Raises SystemdUnavailable, SystemdRefused: OSErrors."""

    def __init__(self, bus: Bus, at: Path) -> None:
        self._bus, self._at = bus, at
        self._uids: dict[str, int | None] = {}
        """By sender, None: it was gone. The bus never gives a name twice."""
        self._refused = False

    def delay(self) -> timedelta:
        """Return how long logind lets locks delay a shutdown (InhibitDelayMaxUSec)."""
        self._bus.allow(SECONDS)
        body: Any = self._bus.call(_PROPERTIES, "Get", "ss", (INTERFACE, "InhibitDelayMaxUSec")).body()
        kind, value = body[0] if body else ("", 0)
        if kind != "t":
            raise ValueError("InhibitDelayMaxUSec from logind is not a uint64 as expected")
        return timedelta(microseconds=min(value, 10**15))

    def is_preparing(self) -> bool:
        """Report whether a shutdown is under way (PreparingForShutdown)."""
        self._bus.allow(SECONDS)
        body: Any = self._bus.call(_PROPERTIES, "Get", "ss", (INTERFACE, "PreparingForShutdown")).body()
        return bool(body) and body[0] == ("b", True)

    def reload(self) -> None:
        """Have logind read its configuration again; it does so soon after."""
        self._bus.allow(SECONDS)
        self._bus.call(MANAGER_ADDRESS, "KillUnit", "ssi", (SERVICE, "all", SIGHUP))

    def inhibit(self) -> int:
        """Take a lock, and return it: a shutdown waits until this file descriptor is closed, or the delay is over."""
        self._bus.allow(SECONDS)
        answer = self._bus.call(_ADDRESS, "Inhibit", "ssss", _WHAT)
        if len(answer.fds) != 1:
            answer.close()
            raise ValueError(f"logind answered with {len(answer.fds)} file descriptors in the place of one lock")
        return answer.fds[0]

    def follow(self) -> None:
        """Ask for the signals that `next_event` returns; lasts as long as the connection."""
        self._bus.allow(SECONDS)
        self._bus.match(f"type='signal',interface='{INTERFACE}',member='{SIGNAL}',path='{PATH}'")

    def next_event(self) -> bool:
        """Wait for the next word of a shutdown: it begins, or was cancelled."""
        while True:
            signal = self._bus.next_signal()
            told = self._told(signal)
            if told is not None and self._is_roots(str(signal.field(HeaderFields.sender))):
                return told

    def _told(self, signal: Received) -> bool | None:
        """Read a signal; None: it is another one, or malformed."""
        expected = {
            HeaderFields.interface: INTERFACE,
            HeaderFields.member: SIGNAL,
            HeaderFields.path: PATH,
            HeaderFields.signature: "b",
        }
        if any(signal.field(name) != value for name, value in expected.items()):
            return None
        body = signal.body()
        return body[0] if len(body) == 1 and isinstance(body[0], bool) else None

    def _is_roots(self, sender: str) -> bool:
        if sender not in self._uids:
            self._bus.allow(SECONDS)
            if len(self._uids) >= _MOST_KNOWN:
                self._uids.clear()
            self._uids[sender] = self._bus.uid_of(sender)
        uid = self._uids[sender]
        if uid is None and is_roots_alone(self._at):
            uid = 0
        if uid != 0 and not self._refused:
            self._refused = True
            _log.warning("word of a shutdown was not from root; further ones are not logged", sender=sender, uid=uid)
        return uid == 0


def is_roots_alone(bus: Path) -> bool:
    """Report whether only root may connect to a socket: that takes the right to write to it."""
    try:
        found = bus.stat()
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH  # with access lists, that of the group is the most that any of them grants
    return found.st_uid == 0 and not found.st_mode & others


@dataclass(slots=True)
class Connection:
    """A socket that another thread may shut, so that whoever waits on it stops."""

    stream: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))

    is_shut: bool = False

    def shut(self) -> None:
        """End what waits on it, also twice, and before it is connected."""
        self.is_shut = True
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def logind(connection: Connection, at: Path) -> Iterator[Logind]:
    """Connect; raises SystemdUnavailable, also for what breaks inside."""
    with connection.stream, opened_bus(connection.stream, at, time.monotonic() + SECONDS) as bus:
        if connection.is_shut:
            raise ConnectionAbortedError("nobody waits for it any more")
        yield Logind(bus, at)


def release(lock: int) -> None:
    """Give up a lock."""
    os.close(lock)
