"""The shell inside the guest: runs what a test sends through a virtio-serial port, and answers with exit code and output.

Copied into the guest's image and started there by systemd (`guest/test-shell.service`), so it uses only the standard library. A line is
a JSON object; `shell.py` has the other end. Commands run side by side, each in a session of its own, which is killed at its time limit.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

PORT: Final = Path("/dev/virtio-ports/test-shell")
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
DRAIN_SECONDS: Final = 1.0
"""How long output is awaited after the command's end: a daemon that it has started may keep its pipes."""
CHUNK: Final = 64 << 10
NOBODY_SECONDS: Final = 0.1
"""Pause while nobody has the other end open: the port cannot be waited for."""


class Pipe(threading.Thread):
    """Reads an output of a command to its end and keeps the first `limit` bytes."""

    def __init__(self, source: IO[bytes], limit: int) -> None:
        super().__init__(daemon=True)
        self.source, self.limit = source, limit
        self.kept = bytearray()
        self.cut = False
        self.start()

    def run(self) -> None:
        """Read until nobody can write any more."""
        while piece := os.read(self.source.fileno(), CHUNK):
            room = self.limit - len(self.kept)
            self.kept += piece[:room]
            self.cut = self.cut or len(piece) > room


class GuestShell:
    """Answers the lines that come through a file descriptor."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.ended = threading.Event()
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Say which boot this is, then answer each request in a thread of its own, until `ended` and nobody asks."""
        self.say({"boot": BOOT_ID.read_text().strip()})
        for line in self._lines():
            with contextlib.suppress(ValueError):  # half a line: the test before was killed
                threading.Thread(target=self.answer, args=[json.loads(line)], daemon=True).start()

    def answer(self, asked: dict[str, Any]) -> None:
        """Do what one request asks for."""
        try:
            told = DO[asked["do"]](asked)
        except Exception as error:  # noqa: BLE001 - the test gets the error, whatever it is
            told = {"error": f"{type(error).__name__}: {error}"}
        self.say({"id": asked.get("id"), **told})

    def say(self, told: dict[str, Any]) -> None:
        """Send one line; the line end before it ends what a crash may have cut off."""
        left = b"\n" + json.dumps(told).encode() + b"\n"
        with self._writing:
            while left:
                left = left[os.write(self.port, left) :]

    def _lines(self) -> Iterator[bytes]:
        begun = b""
        while True:
            piece = os.read(self.port, CHUNK)
            if not piece and self.ended.wait(NOBODY_SECONDS):
                return
            *whole, begun = (begun + piece).split(b"\n")
            yield from (line for line in whole if line)


def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Run a command to its end or its time limit; the code of one that was killed for it is None."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        asked["argv"], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True, cwd="/"
    )
    assert process.stdout is not None
    assert process.stderr is not None
    outputs = [Pipe(one, asked["limit"]) for one in (process.stdout, process.stderr)]
    try:
        code: int | None = process.wait(asked["seconds"])
    except subprocess.TimeoutExpired:
        code = None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for one in outputs:
        one.join(DRAIN_SECONDS)
    texts = [base64.b64encode(bytes(one.kept)).decode() for one in outputs]
    return {"code": code, "stdout": texts[0], "stderr": texts[1], "cut": any(one.cut for one in outputs)}


def put(asked: dict[str, Any]) -> dict[str, Any]:
    """Write a part of a file; the first part replaces what was there."""
    path = Path(asked["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab" if asked["offset"] else "wb") as file:
        file.write(base64.b64decode(asked["content"]))
    path.chmod(asked["mode"])
    return {}


def get(asked: dict[str, Any]) -> dict[str, Any]:
    """Read a part of a file."""
    with Path(asked["path"]).open("rb") as file:
        file.seek(asked["offset"])
        return {"content": base64.b64encode(file.read(asked["limit"])).decode()}


DO: Final = {"run": run, "put": put, "get": get}


def main() -> None:
    """Serve the port for ever."""
    GuestShell(os.open(PORT, os.O_RDWR)).serve()


if __name__ == "__main__":
    main()
