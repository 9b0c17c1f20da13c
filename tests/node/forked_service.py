"""A service of a node as a fork of a process that has imported it already: a start costs a tenth of a second of CPU time, and not one.

`multiprocessing`'s fork server is that process; one starts with a session's first service. What a program gets of its own at exec (its
command line and environment in /proc, LD_PRELOAD) a fork has not, so tests of these start programs.
"""

import atexit
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

_FORKS: ForkServerContext = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.node.imported_services"])
atexit.register(multiprocessing.forkserver._forkserver._stop)  # type: ignore[attr-defined]  # awaited, so its CPU time counts as the session's


class ForkedService:
    """The part of `subprocess.Popen` that tests use of a service."""

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str], log: IO[bytes]) -> None:
        """Start `tempolet` with these words; it ends with the session at the latest."""
        self.args = ["tempolet", *words]
        arguments = (self.args, str(folder), dict(environment), DupFd(log.fileno()))
        self._process: ForkServerProcess = _FORKS.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code; negative: the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code, raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, sign: int) -> None:
        """Send a signal, if it has not ended."""
        if self.returncode is None:
            os.kill(self.pid, sign)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _serve(words: list[str], folder: str, environment: dict[str, str], log: Any) -> None:
    """Become the service, in the forked process."""
    descriptor = log.detach()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    from worker.cli import main  # noqa: PLC0415 - not in the session, which only sends this function's name

    main()
