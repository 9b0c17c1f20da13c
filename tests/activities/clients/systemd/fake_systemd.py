"""A systemd that listens on a socket of the test and answers as the test says, also to do harm.

It speaks D-Bus with the library's own messages, as a bus (with Hello) and as systemd's own socket.
"""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jeepney import DBusAddress, Header, HeaderFields, Message, MessageType, Parser, new_error, new_method_return
from jeepney.wrappers import new_signal

from activities.clients.systemd.bus import MANAGER, SYSTEMD

JOB: Final = "/org/freedesktop/systemd1/job/7"
OWN_NAME: Final = ":1.0"
_MANAGER: Final = DBusAddress("/org/freedesktop/systemd1", SYSTEMD, MANAGER)

Answer = Callable[["FakeSystemd", Message], Sequence[Message | bytes]]


@dataclass
class FakeSystemd:
    """The server; `answers` takes the place of what it does by itself for a method."""

    path: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    connections: int = 0
    proof: bytes = b"OK 1234\r\n"
    units: set[str] = field(default_factory=set)

    @contextmanager
    def listening(self) -> Iterator["FakeSystemd"]:
        """Listen while the block runs."""
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.path))
            server.listen()
            thread = threading.Thread(target=self._accept, args=(server,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                self.connections += 1
                with connection, suppress(OSError):
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        received = b""
        while b"BEGIN\r\n" not in received:
            if not (data := connection.recv(4096)):
                return
            received += data
        connection.sendall(self.proof)
        parser = Parser()
        while data := connection.recv(4096):
            for message in parser.feed(data):
                for one in self._answer(message):
                    connection.sendall(one if isinstance(one, bytes) else one.serialise(serial=99))

    def _answer(self, message: Message) -> Sequence[Message | bytes]:
        member = message.header.fields[HeaderFields.member]
        if member not in ("Hello", "AddMatch"):
            self.calls.append((member, message.body))
        if member in self.answers:
            return self.answers[member](self, message)
        match member:
            case "Hello":
                return [answer(message, "s", (":1.9",))]
            case "Get":
                return [answer(message, "v", (("s", "252.39-1~deb12u2"),))]
            case "StartTransientUnit" if message.body[0] in self.units:
                return [refusal(message, "UnitExists", f"Unit {message.body[0]} already exists.")]
            case "StartTransientUnit" | "StartUnit":
                self.units.add(message.body[0])
                return [answer(message, "o", (JOB,)), removed(message.body[0])]
            case "StopUnit" if message.body[0] not in self.units:
                return [refusal(message, "NoSuchUnit", f"Unit {message.body[0]} not loaded.")]
            case "StopUnit":
                self.units.discard(message.body[0])
                return [answer(message, "o", (JOB,)), removed(message.body[0])]
            case _:
                return [answer(message)]


def answer(to: Message, signature: str | None = None, body: tuple[Any, ...] = ()) -> Message:
    """Build the answer to a call."""
    message = new_method_return(to, signature, body)
    message.header.fields[HeaderFields.reply_serial] = to.header.serial
    message.header.fields[HeaderFields.sender] = OWN_NAME
    return message


def refusal(to: Message, name: str, text: str) -> Message:
    """Build an error of systemd's."""
    return error(to, f"org.freedesktop.systemd1.{name}", text)


def error(to: Message, name: str, text: str) -> Message:
    """Build an error, of whoever answers."""
    message = new_error(to, name, "s", (text,))
    message.header.fields[HeaderFields.sender] = OWN_NAME
    return message


def removed(unit: str, result: str = "done", *, job: str = JOB, sender: str = OWN_NAME) -> Message:
    """Build the signal that a job is over."""
    message = new_signal(_MANAGER, "JobRemoved", "uoss", (7, job, unit, result))
    message.header.fields[HeaderFields.sender] = sender
    return message


def raw_header(signature: bytes, content: bytes, *, body_length: int = 0) -> bytes:
    """Build a message whose one header field has any signature and content."""
    fields = b"\x01" + bytes([len(signature)]) + signature + b"\0" + content
    start = b"l\x04\x00\x01" + body_length.to_bytes(4, "little") + (1).to_bytes(4, "little")
    return start + len(fields).to_bytes(4, "little") + fields + b"\0" * (-(16 + len(fields)) % 8)


def header_of(message: Message) -> Header:
    """Return the header, for its fields."""
    header: Header = message.header
    assert header.message_type is MessageType.method_call
    return header
