"""The test's end of the shell in a guest: commands with exit code, output and time limit, and files to and from the guest.

QEMU connects a Unix socket with the guest's virtio-serial port, so the shell needs no network and works as early as systemd starts it.
`guest_shell.py` is the other end.
"""

import base64
import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

OUTPUT_LIMIT: Final = 1 << 20
"""Bytes that are kept of each output of a command."""
PART: Final = 256 << 10
"""Bytes of a file in one message."""
FILE_LIMIT: Final = 64 << 20
"""Bytes of a file that is read from the guest."""
LINE_LIMIT: Final = 4 << 20
MOMENT: Final = 0.05
"""Seconds between two tries to connect, and between two looks whether QEMU has ended."""
ANSWER_SECONDS: Final = 60.0
"""How long the guest may take to answer beyond a command's own time limit: it is emulated, and may be busy."""


class ShellFailed(Exception):
    """The guest does not answer, or cannot do what it was asked."""


class CommandFailed(Exception):
    """A command of the guest ended with another code than 0, or did not end in time."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    command: str
    code: int | None
    """The exit code; negative: the signal; None: killed at its time limit."""
    stdout: str
    stderr: str
    cut: bool
    """Whether an output was longer than what is kept."""

    def checked(self) -> "Ran":
        """Return this; raises CommandFailed unless the exit code is 0."""
        if self.code != 0:
            how = "was killed at its time limit" if self.code is None else f"ended with {self.code}"
            raise CommandFailed(f"`{self.command}` {how}:\n{self.stdout}\n{self.stderr}")
        return self


@dataclass
class Shell:
    """A connection to the shell of one guest, over as many of its boots as QEMU lives."""

    path: Path
    alive: Callable[[], bool]
    """Whether QEMU runs: if not, nothing is awaited any more."""
    _boots: list[str] = field(default_factory=list)
    _answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _socket: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX))

    def connect(self, seconds: float) -> None:
        """Connect as soon as QEMU listens; raises ShellFailed."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._socket.connect(str(self.path))
                break
            except OSError as error:
                if time.monotonic() > deadline or not self.alive():
                    raise ShellFailed(f"QEMU does not listen on {self.path}: {error}") from error
                time.sleep(MOMENT)  # another process: there is no event to await
        self._socket.settimeout(None)
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def boot_id(self, seconds: float, but_not: str = "") -> str:
        """Wait for a boot other than the one named; raises ShellFailed."""
        self._await(lambda: bool(self._boots) and self._boots[-1] != but_not, seconds, "the guest has not booted")
        return self._boots[-1]

    def run(self, command: str | list[str], seconds: float) -> Ran:
        """Run a command line with sh, or a program with arguments."""
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        told = self._ask(seconds, do="run", argv=argv, seconds=seconds, limit=OUTPUT_LIMIT)
        outputs = [base64.b64decode(told[one]).decode(errors="replace") for one in ("stdout", "stderr")]
        named = command if isinstance(command, str) else " ".join(command)
        return Ran(named, told["code"], outputs[0], outputs[1], told["cut"])

    def tell(self, command: str) -> None:
        """Run a command line without awaiting its end, such as one that ends the guest."""
        self._send(do="run", argv=["/bin/sh", "-c", command], seconds=ANSWER_SECONDS, limit=0)

    def put(self, content: bytes, path: str, mode: int) -> None:
        """Write a file of the guest, in parts; the folder is made."""
        for offset in range(0, len(content) or 1, PART):
            part = base64.b64encode(content[offset : offset + PART]).decode()
            self._ask(0, do="put", path=path, offset=offset, mode=mode, content=part)

    def get(self, path: str) -> bytes:
        """Read a file of the guest; raises ShellFailed if it is too large."""
        content = b""
        while part := self._part(path, len(content)):
            content += part
            if len(content) > FILE_LIMIT:
                raise ShellFailed(f"{path} has more than {FILE_LIMIT} bytes")
        return content

    def _part(self, path: str, offset: int) -> bytes:
        return base64.b64decode(self._ask(0, do="get", path=path, offset=offset, limit=PART)["content"])

    def _ask(self, seconds: float, /, **request: Any) -> dict[str, Any]:
        number = self._send(**request)
        self._await(lambda: number in self._answers, seconds + ANSWER_SECONDS, f"no answer to {request['do']}")
        told = self._answers.pop(number)
        if "error" in told:
            raise ShellFailed(f"{request['do']}: {told['error']}")
        return told

    def _send(self, **request: Any) -> int:
        number = next(self._ids)
        with self._writing:
            try:
                self._socket.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
            except OSError as error:
                raise ShellFailed(f"no connection to the guest: {error}") from error
        return number

    def _await(self, there: Callable[[], bool], seconds: float, else_: str) -> None:
        deadline = time.monotonic() + seconds
        with self._news:
            while not self._news.wait_for(there, MOMENT):
                if not self.alive():
                    raise ShellFailed(f"{else_}, and QEMU has ended")
                if time.monotonic() > deadline:
                    raise ShellFailed(f"{else_} within {seconds:.0f} s")

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            while line := lines.readline(LINE_LIMIT):
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return  # empty, or cut off by a crash of the guest
        with self._news:
            if "boot" in told:
                self._boots.append(told["boot"])
            else:
                self._answers[told["id"]] = told
            self._news.notify_all()
