"""Does a test session that is told to end, as CI does on a timeout, stop everything that it has started?"""

import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.conftest import pytest_keyboard_interrupt, pytest_runtest_setup"
SESSION = """
import signal, subprocess, sys
import pytest

@pytest.fixture(scope="session")
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    print("ending", flush=True)
    sys.stdin.readline()
    process.kill()
    process.wait()
    print("ended", flush=True)

def test_waits(sleeper):
    print("waits", flush=True)
    sleeper.wait()
"""
SERVED = """
import asyncio

async def test_waits():
    stopping, stopped = asyncio.Event(), asyncio.Event()

    async def serve():
        print("waits", flush=True)
        while not stopping.is_set():
            await asyncio.sleep(0)
        stopped.set()

    serving = asyncio.create_task(serve())
    try:
        await asyncio.sleep(600)
    finally:
        stopping.set()
        await stopped.wait()
        print("stopped", flush=True)
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_fixtures_end_what_they_have_started(tmp_path: Path, first: signal.Signals) -> None:
    """At the first signal; a second one does not interrupt the teardown."""
    with _session(tmp_path, SESSION) as session:
        try:
            assert session.stdout is not None
            _read_until("waits", session.stdout)
            session.send_signal(first)
            _read_until("ending", session.stdout)
            session.send_signal(signal.SIGTERM)
            said, _ = session.communicate("\n", timeout=60)
        finally:
            session.kill()
    assert "ended\n" in said
    assert session.returncode == pytest.ExitCode.INTERRUPTED


def test_a_coroutine_stops_its_tasks(tmp_path: Path) -> None:
    """The signal does not come as an error in the task that happens to run: nobody would say any more that it has stopped."""
    with _session(tmp_path, SERVED) as session:
        try:
            assert session.stdout is not None
            _read_until("waits", session.stdout)
            session.send_signal(signal.SIGTERM)
            said, _ = session.communicate(timeout=60)
        finally:
            session.kill()
    assert "stopped\n" in said
    assert session.returncode == pytest.ExitCode.INTERRUPTED


def _session(folder: Path, test: str) -> "subprocess.Popen[str]":
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_waits.py").write_text(test)
    words = ["-s", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-m", "pytest", *words], cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def _read_until(word: str, said: Iterable[str]) -> None:
    lines = []
    for line in said:
        lines.append(line)
        if word in line:
            return
    pytest.fail(f"never said {word}: {lines}")
