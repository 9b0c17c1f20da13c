"""A small logind on a private bus of the test: it answers what the worker asks, and tells of shutdowns.

Runs in a thread with a connection of its own, beside a real dbus-daemon.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from jeepney import DBusAddress, HeaderFields, MessageType, new_method_call, new_method_return, new_signal
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from tests.patience import PATIENCE

LOGIND: Final = "org.freedesktop.login1"
MANAGER: Final = DBusAddress("/org/freedesktop/login1", LOGIND, f"{LOGIND}.Manager")
SYSTEMD: Final = "org.freedesktop.systemd1"
_CONFIG: Final = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
<allow receive_type="signal"/></policy></busconfig>
"""


@dataclass
class SmallBus:
    """A dbus-daemon."""

    folder: Path
    process: "subprocess.Popen[str] | None" = None

    @property
    def path(self) -> Path:
        """Return its socket."""
        return self.folder / "bus"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        config = self.folder / "bus.conf"
        config.write_text(_CONFIG.format(path=self.path))
        self.path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline()
        self.path.chmod(0o666)
        self.folder.chmod(0o755)

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=PATIENCE)
            self.process = None

    def connect(self, *, fds: bool = False) -> DBusConnection:
        """Connect as this process."""
        return open_dbus_connection(f"unix:path={self.path}", enable_fds=fds)


@dataclass
class SmallLogind:
    """The service; everything may be looked at and changed by the test."""

    bus: SmallBus
    delay_usec: int = 5_000_000
    after_reload_usec: int | None = None
    preparing: bool = False
    locks: list[int] = field(default_factory=list)
    """Our ends of the locks that were given."""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    _given: socket.socket | None = None
    """The watcher's end, until it is sent."""
    _connection: DBusConnection | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Connect, and answer in a thread."""
        connection = self._connection = self.bus.connect(fds=True)
        for name in (LOGIND, SYSTEMD):
            connection.send_and_get_reply(message_bus.RequestName(name))
        self._thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the bus."""
        if self._connection is not None and self._thread is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._thread.join(20)
            self._connection.close()
            self._connection = None

    def tell(self, begins: bool) -> None:
        """Tell all of a shutdown."""
        assert self._connection is not None
        self._connection.send(new_signal(MANAGER, "PrepareForShutdown", "b", (begins,)))

    def held(self) -> int:
        """Count the locks that are held."""
        found = 0
        for lock in self.locks:
            with socket.socket(fileno=os.dup(lock)) as end:
                end.setblocking(False)
                try:
                    found += end.recv(1) != b""
                except BlockingIOError:
                    found += 1
        return found

    def _serve(self, connection: DBusConnection) -> None:
        while True:
            try:
                call = connection.receive()
            except (OSError, ConnectionError):
                return
            if call.header.message_type is not MessageType.method_call:
                continue
            member = call.header.fields[HeaderFields.member]
            with self.changed:
                self.asked.append((member, call.body))
                answer = self._answer(member, call)
                self.changed.notify_all()
            connection.send(answer)
            if self._given is not None:
                self._given.close()
                self._given = None

    def _answer(self, member: str, call: Any) -> Any:
        match member:
            case "Get" if call.body[1] == "InhibitDelayMaxUSec":
                return new_method_return(call, "v", (("t", self.delay_usec),))
            case "Get":
                return new_method_return(call, "v", (("b", self.preparing),))
            case "Inhibit":
                ours, theirs = socket.socketpair()
                self.locks.append(ours.detach())
                self._given = theirs
                return new_method_return(call, "h", (theirs,))
            case _:
                self.delay_usec = self.after_reload_usec or self.delay_usec
                return new_method_return(call)

    def close(self) -> None:
        """Give up everything."""
        self.stop()
        for lock in self.locks:
            os.close(lock)


@contextlib.contextmanager
def small_logind(folder: Path) -> Iterator[SmallLogind]:
    """Run both."""
    bus = SmallBus(folder)
    bus.start()
    logind = SmallLogind(bus)
    try:
        logind.start()
        yield logind
    finally:
        logind.close()
        bus.stop()


@contextlib.contextmanager
def own_logind(delay: timedelta) -> Iterator[SmallLogind]:
    """Run both in a folder of their own, with this InhibitDelayMaxUSec; skips the test where there is no dbus-daemon."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("no dbus-daemon on this machine")
    with tempfile.TemporaryDirectory(prefix="tempolet-bus-") as folder, small_logind(Path(folder)) as found:
        found.delay_usec = delay // timedelta(microseconds=1)
        yield found


def call_of(sender: DBusConnection, member: str) -> None:
    """Ask the bus something, so that all that was sent before has passed."""
    sender.send_and_get_reply(new_method_call(message_bus, member))
