"""The real kubectl as a user of the cluster runs it, and a terminal for it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster.binaries import find_binaries
from tests.node.tempolet_node import PATIENCE

WITHIN: Final = 120
"""Seconds for what takes the controllers several rounds on a busy machine."""


@dataclass(frozen=True)
class Ended:
    """The result of a call."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Its output."""
        return self.out.decode()


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with one kubeconfig; its cache of API resources is in `home`."""

    kubeconfig: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, stdin: bytes = b"", patience: float = PATIENCE) -> Ended:
        """Run it to completion; raises subprocess.TimeoutExpired."""
        done = subprocess.run(
            self._command(words),
            input=stdin,
            capture_output=True,
            timeout=patience,
            check=False,
            env=self._environment(),
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    def ok(self, *words: str, stdin: bytes = b"", patience: float = PATIENCE) -> str:
        """Run it and return its output; raises AssertionError with that output if it fails."""
        ended = self(*words, stdin=stdin, patience=patience)
        assert ended.code == 0, f"kubectl {' '.join(words)}: {ended.code}: {ended.err}\n{ended.text}"
        return ended.text

    def wait_for(self, what: str, *of: str, namespace: str) -> None:
        """Wait for objects of a namespace as `kubectl wait --for=<what>` does."""
        words = (*of, "-n", namespace, f"--timeout={WITHIN}s")
        self.ok("wait", f"--for={what}", *words, patience=WITHIN + 10)

    def rolled_out(self, deployment: str, namespace: str) -> None:
        """Wait until a Deployment is rolled out."""
        words = (f"deployment/{deployment}", "-n", namespace, f"--timeout={WITHIN}s")
        self.ok("rollout", "status", *words, patience=WITHIN + 10)

    @contextlib.contextmanager
    def started(self, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run it in the background while the block runs, with stderr in stdout."""
        with subprocess.Popen(
            self._command(words),
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def in_terminal(self, *words: str, rows: int = 24, columns: int = 80) -> Iterator["Terminal"]:
        """Run it in a terminal of this size while the block runs."""
        pid, terminal = pty.fork()
        if pid == 0:
            command = self._command(words)
            os.execve(command[0], command, self._environment())
        made = Terminal(pid, terminal)
        made.resize(rows, columns)
        try:
            yield made
        finally:
            made.end()

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [str(find_binaries(("kubectl",)) / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.home), "TERM": "xterm", **self.environment}


@dataclass
class Terminal:
    """A process and its terminal."""

    pid: int
    descriptor: int
    seen: str = ""
    code: int | None = None

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.descriptor, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Resize the window."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern: str, patience: float = PATIENCE) -> str:
        """Read until the output since the last call matches; raises TimeoutError with the output."""
        deadline = time.monotonic() + patience
        while not (found := re.search(pattern, self.seen)):
            if not self._read(deadline - time.monotonic()):
                raise TimeoutError(f"never shown: {pattern!r}; shown: {self.seen!r}")
        self.seen = self.seen[found.end() :]
        return found[0]

    def until_prompt(self, patience: float) -> None:
        """Read until the shell of a container that kubectl attaches to prompts; a prompt of before the attachment is not shown."""
        self.until("try pressing enter", patience)
        self.type("\n")
        self.until("# ", patience)

    def ended(self, patience: float = PATIENCE) -> int:
        """Read to the end; returns the exit code."""
        deadline = time.monotonic() + patience
        while self._read(deadline - time.monotonic()):
            pass
        if self.code is None:
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def end(self) -> None:
        """End the process, and close the terminal."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
        os.close(self.descriptor)

    def _read(self, seconds: float) -> bool:
        """Read output; False: none in time, or the process has ended."""
        if seconds <= 0 or not select.select([self.descriptor], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.descriptor, 1 << 16)
        except OSError:  # the terminal of a process that has ended
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)
