"""One connection to systemd over D-Bus, for one operation.

Opened and closed by `units` for each operation, in the thread that waits for it. So nothing has to be reconnected, and no
signals pile up on a connection that nobody reads. The system's bus comes first, then systemd's own socket, which is there
before the bus and without one (as go-systemd's NewWithContext does).

The peer may be anything that listens on the socket: time, bytes and messages are limited, and of what it sends only the
signatures that are expected are parsed, because an array of empty structs in a message would never end.
"""

import contextlib
import os
import socket
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.auth import BEGIN, NEGOTIATE_UNIX_FD, Authenticator
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
_MOST_FDS: Final = 16
"""Of one message; the bus lets none with more pass."""
_EXPECTED: Final = frozenset({"b", "s", "o", "u", "v", "uoss"})
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


class Received(NamedTuple):
    """A message."""

    header: Header
    raw: bytes
    fds: tuple[int, ...] = ()
    """File descriptors that came with it, of which whoever has the message is the owner."""

    def field(self, name: HeaderFields) -> Any:
        """Return a field of the header; None if there is none."""
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

    def close(self) -> None:
        """Close the file descriptors."""
        for fd in self.fds:
            os.close(fd)


@dataclass(slots=True)
class Bus:
    """The connection; use it in `opened`. Raises SystemdUnavailable, SystemdRefused."""

    _socket: socket.socket
    _until: float | None
    """None: however long it takes."""
    _private: bool
    _buffer: bytearray = field(default_factory=bytearray)
    _received: int = 0
    _serial: int = 0
    _signals: list[Received] = field(default_factory=list)
    _takes_fds: bool = False
    _fds: list[int] = field(default_factory=list)
    """Of messages that are not complete yet."""

    def call(self, target: DBusAddress, member: str, signature: str = "", body: Sequence[object] = ()) -> "Received":
        """Call a method and return its answer."""
        self._serial += 1
        message = new_method_call(target, member, signature or None, tuple(body))
        self._send(message.serialise(serial=self._serial))
        while True:
            one = self._next()
            kind = one.header.message_type
            is_reply = kind is not MessageType.signal and one.field(HeaderFields.reply_serial) == self._serial
            if kind is MessageType.signal:
                self._signals.append(one)
            if not is_reply or kind is MessageType.error:
                one.close()
            if is_reply:
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

    def next_signal(self) -> Received:
        """Return the next signal, in the order of their arrival, however long it takes; other messages are dropped."""
        while not self._signals:
            self._until, self._received = None, 0
            if (one := self._next()).header.message_type is MessageType.signal:
                self._signals.append(one)
            one.close()
        return self._signals.pop(0)

    def match(self, rule: str) -> None:
        """Ask for signals."""
        self.call(_BUS, "AddMatch", "s", (rule,))

    def uid_of(self, sender: str) -> int | None:
        """Return whose a connection is; None if it is gone. The bus asked the kernel when it was made."""
        try:
            found = self.call(_BUS, "GetConnectionUnixUser", "s", (sender,)).body()
        except (ConnectionError, SystemdRefused):
            return None
        return found[0] if found and isinstance(found[0], int) else None

    def allow(self, seconds: float) -> None:
        """Limit what follows to so many seconds and to the usual number of bytes."""
        self._until, self._received = time.monotonic() + seconds, 0

    def close(self) -> None:
        """Close file descriptors that nobody has taken."""
        while self._fds:
            os.close(self._fds.pop())

    def _result(self, signal: Received, job: str, answer: Received) -> str | None:
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
        proof = Authenticator(enable_fds=self._takes_fds)
        self._send((proof.data_to_send() or b"") + (NEGOTIATE_UNIX_FD if self._takes_fds else b"") + BEGIN)
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

    def _next(self) -> Received:
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
        number = header.fields.get(HeaderFields.unix_fds) or 0
        fds, self._fds = self._fds[:number], self._fds[number:]
        return Received(header, raw, tuple(fds))

    def _send(self, data: bytes) -> None:
        self._limit_time()
        self._socket.sendall(data)

    def _fill(self) -> None:
        self._limit_time()
        received = self._with_fds() if self._takes_fds else self._socket.recv(_CHUNK)
        if not received:
            raise ConnectionError("it closed the connection")
        self._received += len(received)
        if self._received > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        self._buffer += received

    def _with_fds(self) -> bytes:
        """Receive, and keep the file descriptors that come along; socket.recv_fds ignores its flags."""
        space = socket.CMSG_SPACE(_MOST_FDS * array("i").itemsize)
        received, others, _, _ = self._socket.recvmsg(_CHUNK, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in others:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                self._fds += found
        return received

    def _limit_time(self) -> None:
        if self._until is None:
            self._socket.settimeout(None)
            return
        if (left := self._until - time.monotonic()) <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)


MANAGER_ADDRESS: Final = DBusAddress("/org/freedesktop/systemd1", SYSTEMD, MANAGER)
PROPERTIES_ADDRESS: Final = DBusAddress("/org/freedesktop/systemd1", SYSTEMD, "org.freedesktop.DBus.Properties")


@contextlib.contextmanager
def opened(sockets: Sockets, until: float) -> Iterator[Bus]:
    """Connect, until a time of time.monotonic(); what breaks inside is SystemdUnavailable, too."""
    at = sockets.private
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, _unavailable(lambda: at):
        try:
            _connect(connection, sockets.bus, until)
        except (FileNotFoundError, ConnectionRefusedError):
            _connect(connection, sockets.private, until)
        else:
            at = sockets.bus
        bus = Bus(connection, until, _private=at == sockets.private)
        bus.greet()
        yield bus


@contextlib.contextmanager
def opened_bus(connection: socket.socket, at: Path, until: float) -> Iterator[Bus]:
    """Connect a socket to a bus for as long as the block runs, with file descriptors; raises as `opened`."""
    with _unavailable(lambda: at):
        _connect(connection, at, until)
        bus = Bus(connection, until, _private=False, _takes_fds=True)
        try:
            bus.greet()
            yield bus
        finally:
            bus.close()


@contextlib.contextmanager
def _unavailable(at: Callable[[], Path]) -> Iterator[None]:
    """Turn what breaks inside into SystemdUnavailable."""
    try:
        yield
    except (SystemdRefused, SystemdUnavailable):
        raise
    except (OSError, ValueError, KeyError, IndexError, TypeError, AssertionError, RecursionError) as error:
        raise SystemdUnavailable(f"systemd at {at()}: {shorten(str(error)) or type(error).__name__}") from error


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
