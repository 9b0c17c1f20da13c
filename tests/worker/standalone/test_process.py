"""Is a process found again by its pid file, and never another one with the same pid?"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from worker.standalone.machine import process
from worker.standalone.machine.process import Command, Identity, Supervised, end_process, wait_for_end


@pytest.fixture
def sleeper(tmp_path: Path) -> Supervised:
    """Return a process that is not started yet."""
    return Supervised(tmp_path / "run" / "sleeper.pid")


def command(tmp_path: Path, script: str = "echo up; exec sleep 60") -> Command:
    """Return a command whose output goes to a log."""
    return Command(["sh", "-c", script], tmp_path / "log" / "sleeper.log", {"TEMPOLET_TEST": "x"})


def variables_of(process: Supervised, identity: Identity) -> list[bytes]:
    """Read what a process was started with; the kernel shows nothing for a moment, while it sets the program up."""
    environment = Path(f"/proc/{identity.pid}/environ")
    while not (variables := environment.read_bytes()):
        assert process.running() == identity
    return variables.split(b"\0")


def test_it_lives_on_in_a_session_of_its_own_until_it_is_stopped(sleeper: Supervised, tmp_path: Path) -> None:
    """Started once, found again, stopped, gone."""
    identity = sleeper.start(command(tmp_path))
    assert os.getsid(identity.pid) == identity.pid
    assert sleeper.start(command(tmp_path)) == identity
    assert sleeper.running() == identity
    assert b"TEMPOLET_TEST=x" in variables_of(sleeper, identity)
    assert sleeper.stop(within=5) is True
    assert sleeper.running() is None
    assert not sleeper.pid_file.exists()


def test_what_is_meant_for_others_is_not_passed_on(
    sleeper: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded Temporal is reached without the operator's key, and systemd is not answered twice."""
    for name in ("TEMPORAL_API_KEY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "KEPT"):
        monkeypatch.setenv(name, "secret")
    identity = sleeper.start(command(tmp_path))
    try:
        names = {one.partition(b"=")[0] for one in variables_of(sleeper, identity)}
        assert b"KEPT" in names
        assert not names & {b"TEMPORAL_API_KEY", b"NOTIFY_SOCKET", b"WATCHDOG_USEC"}
    finally:
        assert sleeper.stop(within=5)


FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
exit_thread = {"x86_64": 60, "aarch64": 93}[__import__("platform").machine()]  # exit(2) ends the calling thread alone
ctypes.CDLL(None).syscall(exit_thread, 0)
"""


def test_one_whose_first_thread_has_ended_still_runs(
    sleeper: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ports and locks are taken until its last thread has ended, although it shows as a zombie."""
    monkeypatch.setattr(process, "LAST_THREAD_WITHIN", 0.1)
    identity = sleeper.start(Command([sys.executable, "-c", FIRST_THREAD_ENDS], tmp_path / "log", {}))
    stat = Path(f"/proc/{identity.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert sleeper.running() == identity
    assert sleeper.running() == identity
    monkeypatch.undo()
    os.kill(identity.pid, signal.SIGKILL)
    assert sleeper.running() is None, "its end is awaited"


def test_one_that_does_not_listen_is_killed(sleeper: Supervised, tmp_path: Path) -> None:
    """The result says so."""
    identity = sleeper.start(command(tmp_path, "trap '' TERM; echo deaf; while :; do sleep 60 & wait; done"))
    log = tmp_path / "log" / "sleeper.log"
    while "deaf" not in log.read_text():
        assert sleeper.running()
    try:
        assert sleeper.stop(within=0.2) is False
        assert wait_for_end(identity.pid, 5)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have been killed before it had begun its sleep
            os.killpg(identity.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"started": 1}, id="the-number-went-to-another-process"),
        pytest.param({"boot": "another"}, id="from-before-a-reboot"),
        pytest.param({"pid": 2**22 + 1}, id="no-such-process"),
        pytest.param({"more": 1}, id="another-version-wrote-it"),
    ],
)
def test_a_stranger_is_never_ours(sleeper: Supervised, tmp_path: Path, change: dict[str, int | str]) -> None:
    """A process with another pid, start time or boot id is neither found nor stopped."""
    identity = sleeper.start(command(tmp_path))
    try:
        written = json.loads(sleeper.pid_file.read_text())
        sleeper.pid_file.write_text(json.dumps(written | change))
        assert sleeper.running() is None
        assert sleeper.stop(within=1) is True
        assert not wait_for_end(identity.pid, 0)
    finally:
        end_process(identity.pid, 5)
