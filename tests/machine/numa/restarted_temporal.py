"""A Temporal on this machine that is killed and started again, with its database, for a booted machine that reaches it."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import temporal_program, until_listening
from tests.free_ports import free_port


@dataclass
class RestartedTemporal:
    """A development server with a database file."""

    folder: Path
    port: int = field(default_factory=free_port)
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [
            temporal_program(),
            "server",
            "start-dev",
            "--headless",
            "--ip",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        command += [
            "--db-filename",
            str(self.folder / "database"),
            "--dynamic-config-value",
            "frontend.WorkflowPauseEnabled=true",
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until_listening(self.port, self._process)

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def restarted_temporal(folder: Path) -> Iterator[RestartedTemporal]:
    """Run one while the block runs."""
    server = RestartedTemporal(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
