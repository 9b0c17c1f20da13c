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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
    print("waits", flush=True)
    sleeper.wait()
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_fixtures_end_what_they_have_started(tmp_path: Path, first: signal.Signals) -> None:
    """At the first signal; a second one does not interrupt the teardown."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_waits.py").write_text(SESSION)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as session:
        try:
            assert session.stdin is not None
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


def _read_until(word: str, said: Iterable[str]) -> None:
    lines = []
    for line in said:
        lines.append(line)
        if word in line:
            return
    pytest.fail(f"never said {word}: {lines}")
