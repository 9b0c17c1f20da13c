"""One connection to systemd over D-Bus, for one operation.

Opened and closed by `units` for each operation, in the thread that waits for it. So nothing has to be reconnected, and no
signals pile up on a connection that nobody reads. The system's bus comes first, then systemd's own socket, which is there
before the bus and without one (as go-systemd's NewWithContext does).

The peer may be anything that listens on the socket: time, bytes and messages are limited, and of what it sends only the
signatures that are expected are parsed, because an array of empty structs in a message would never end.
"""

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.auth import BEGIN, Authenticator
from jeepney.low_level import Header, calc_msg_size

from proto.messages import shorten

SYSTEM_BUS: Final = Path("/run/dbus/system_bus_socket")
PRIVATE_SOCKET: Final = Path("/run/systemd/private")
SYSTEMD: Final = "org.freedesktop.systemd1"
MANAGER: Final = f"{SYSTEMD}.Manager"
_BUS: Final = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
_LARGEST_MESSAGE: Final = 256 * 1024
_MOST_BYTES: Final = 16 * 1024 * 1024
"""Of one connection. systemd's own socket sends every signal, also those about other units."""
_CHUNK: Final = 64 * 1024
_LINE_END: Final = b"\r\n"
_LONGEST_LINE: Final = 16 * 1024
_BUSY_PAUSE: Final = 0.05
_EXPECTED: Final = frozenset({"s", "o", "v", "uoss"})
"""Signatures of answers and signals that are read; the text of an error is the first."""
_AWAY: Final = frozenset(
    f"org.freedesktop.DBus.Error.{one}" for one in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected")
)
"""What a bus answers in the place of systemd, which is away while it restarts itself."""


class SystemdUnavailable(OSError):
    """systemd cannot be reached, or did not answer in time; the message says where and why."""


class SystemdRefused(OSError):
    """systemd refused: its error's name and text."""

    def __init__(self, call: str, name: str, text: str) -> None:
        self.name = name
        super().__init__(f"systemd: {call}: {shorten(text) or name}")


class Sockets(NamedTuple):
    """Where systemd may be reached."""

    bus: Path = SYSTEM_BUS
    private: Path = PRIVATE_SOCKET


class _Received(NamedTuple):
    header: Header
    raw: bytes

    def field(self, name: HeaderFields) -> Any:
        return self.header.fields.get(name)

    def body(self) -> tuple[Any, ...]:
        """Parse the body, if it is one of those that are expected."""
        signature = self.field(HeaderFields.signature)
        if signature not in _EXPECTED or (signature == "v" and b"()" in self.raw):
            return ()
        body: tuple[Any, ...] = Message.from_buffer(self.raw).body
        return body

    def text(self) -> str:
        """Return the first text of the body; empty without one."""
        return next((one for one in self.body() if isinstance(one, str)), "")


@dataclass(slots=True)
class Bus:
    """The connection; use it in `opened`. Raises SystemdUnavailable, SystemdRefused."""

    _socket: socket.socket
    _until: float
    _private: bool
    _buffer: bytearray = field(default_factory=bytearray)
    _received: int = 0
    _serial: int = 0
    _signals: list[_Received] = field(default_factory=list)

    def call(self, target: DBusAddress, member: str, signature: str = "", body: Sequence[object] = ()) -> "_Received":
        """Call a method and return its answer."""
        self._serial += 1
        message = new_method_call(target, member, signature or None, tuple(body))
        self._send(message.serialise(serial=self._serial))
        while True:
            one = self._next()
            kind = one.header.message_type
            if kind is MessageType.signal:
                self._signals.append(one)
            elif one.field(HeaderFields.reply_serial) == self._serial:
                if kind is MessageType.error:
                    name, text = str(one.field(HeaderFields.error_name)), one.text()
                    if name in _AWAY:
                        raise ConnectionError(text or name)
                    raise SystemdRefused(member, name, text)
                return one

    def job(self, member: str, signature: str, body: Sequence[object], unit: str) -> str:
        """Call a method of systemd that queues a job for a unit, and return the job's result."""
        if not self._private:
            rule = f"type='signal',sender='{SYSTEMD}',interface='{MANAGER}',member='JobRemoved',arg2='{unit}'"
            self.call(_BUS, "AddMatch", "s", (rule,))
        self._signals.clear()
        answer = self.call(MANAGER_ADDRESS, member, signature, body)
        job = answer.text()
        while True:
            for one in self._signals:
                if (result := self._result(one, job, answer)) is not None:
                    return result
            self._signals.clear()
            if (one := self._next()).header.message_type is MessageType.signal:
                self._signals.append(one)

    def _result(self, signal: _Received, job: str, answer: _Received) -> str | None:
        """Read the result of a job; None: another's signal, or one that somebody else sent."""
        told = signal.field(HeaderFields.member) == "JobRemoved" and signal.field(HeaderFields.interface) == MANAGER
        if not told or signal.field(HeaderFields.sender) != answer.field(HeaderFields.sender):
            return None
        body = signal.body()
        return str(body[3]) if len(body) == 4 and body[1] == job else None

    def greet(self) -> None:
        """Prove who we are, and on a bus ask for a name.

        BEGIN goes with the proof, as sd-bus sends it: a message that systemd reads together with a later BEGIN lies there
        until something else arrives.
        """
        proof = Authenticator()
        self._send((proof.data_to_send() or b"") + BEGIN)
        while not proof.authenticated:
            while (end := self._buffer[:_LONGEST_LINE].find(_LINE_END)) < 0:
                if len(self._buffer) >= _LONGEST_LINE:
                    raise ValueError("Too much data before the connection is open")
                self._fill()
            line = bytes(self._buffer[: end + len(_LINE_END)])
            del self._buffer[: len(line)]  # systemd's own socket may send signals with it
            proof.feed(line)
        if not self._private:
            self.call(_BUS, "Hello")

    def _next(self) -> _Received:
        while len(self._buffer) < 16:
            self._fill()
        if (size := calc_msg_size(bytes(self._buffer[:16]))) > _LARGEST_MESSAGE:
            raise ValueError(f"a message of {size} bytes")
        while len(self._buffer) < size:
            self._fill()
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        start = int.from_bytes(raw[12:16], "little" if raw[:1] == b"l" else "big")
        if b"()" in raw[: 16 + start]:
            raise ValueError("a header with an empty struct")
        header, _ = Header.from_buffer(raw)
        return _Received(header, raw)

    def _send(self, data: bytes) -> None:
        self._limit_time()
        self._socket.sendall(data)

    def _fill(self) -> None:
        self._limit_time()
        received = self._socket.recv(_CHUNK)
        if not received:
            raise ConnectionError("it closed the connection")
        self._received += len(received)
        if self._received > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        self._buffer += received

    def _limit_time(self) -> None:
        if (left := self._until - time.monotonic()) <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)


MANAGER_ADDRESS: Final = DBusAddress("/org/freedesktop/systemd1", SYSTEMD, MANAGER)
PROPERTIES_ADDRESS: Final = DBusAddress("/org/freedesktop/systemd1", SYSTEMD, "org.freedesktop.DBus.Properties")


@contextlib.contextmanager
def opened(sockets: Sockets, until: float) -> Iterator[Bus]:
    """Connect, until a time of time.monotonic(); what breaks inside is SystemdUnavailable, too."""
    at = sockets.private
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            try:
                _connect(connection, sockets.bus, until)
            except (FileNotFoundError, ConnectionRefusedError):
                _connect(connection, sockets.private, until)
            else:
                at = sockets.bus
            bus = Bus(connection, until, _private=at == sockets.private)
            bus.greet()
            yield bus
        except (SystemdRefused, SystemdUnavailable):
            raise
        except (OSError, ValueError, KeyError, IndexError, TypeError, AssertionError, RecursionError) as error:
            raise SystemdUnavailable(f"systemd at {at}: {shorten(str(error)) or type(error).__name__}") from error


def _connect(connection: socket.socket, at: Path, until: float) -> None:
    """Connect; a socket with a full queue is tried again until the time is over."""
    while True:
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            connection.connect(str(at))
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("no answer in time") from None
            time.sleep(_BUSY_PAUSE)
        else:
            return
