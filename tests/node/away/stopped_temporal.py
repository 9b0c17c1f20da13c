"""A Temporal of a test's own, which the test suspends, kills and brings back."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.free_ports import free_ports
from worker.standalone.temporal_server import TemporalServer

RETURNED: Final = "handed a pod back to Temporal"
"""What the worker logs of each pod that it has led meanwhile."""


@pytest.fixture
def own_temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """Start a Temporal that no other test uses; its folder's name is short, because it has sockets."""
    folder = tmp_path_factory.mktemp("t")
    server = TemporalServer(folder / "temporal", folder / "run", free_ports(1)[0])
    try:
        server.start()
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError, StopIteration):
            resume(server)
        server.stop()


def suspend(server: TemporalServer) -> None:
    """Suspend the server: connections stay, and nothing answers."""
    os.kill(server_pid(server), signal.SIGSTOP)


def resume(server: TemporalServer) -> None:
    """Let a suspended server go on."""
    os.kill(server_pid(server), signal.SIGCONT)


def server_pid(server: TemporalServer) -> int:
    """Return the PID of the server, which is the gateway's child."""
    gateway: int = json.loads(server.process.pid_file.read_text())["pid"]
    below = [gateway]
    for pid in below:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that has ended
                below += [int(one) for one in (task / "children").read_text().split()]
    return next(pid for pid in below if b"start-dev" in Path(f"/proc/{pid}/cmdline").read_bytes() and pid != gateway)
