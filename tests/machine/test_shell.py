"""Does the shell tell code, output and time limits as they are? Both ends, over a socket of this machine."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine import guest_shell, shell
from tests.machine.shell import CommandFailed, Shell, ShellFailed
from tests.patience import PATIENCE


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Shell]:
    """Return a shell whose guest is this machine."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        one = Shell(tmp_path / "s", lambda: True)
        one.connect(PATIENCE)
        connection, _ = listener.accept()
        with connection:
            guest = guest_shell.GuestShell(connection.fileno())
            serving = threading.Thread(target=guest.serve, daemon=True)
            serving.start()
            one.boot_id(PATIENCE)
            yield one
            guest.ended.set()
            one.close()
            serving.join(PATIENCE)


@pytest.mark.parametrize(
    ("command", "code", "stdout", "stderr"),
    [
        pytest.param("echo out; echo err >&2", 0, "out\n", "err\n", id="outputs-are-apart"),
        pytest.param("exit 7", 7, "", "", id="the-code-is-the-commands"),
        pytest.param("kill -9 $$", -9, "", "", id="a-signal-is-negative"),
        pytest.param(["echo", "$HOME; b"], 0, "$HOME; b\n", "", id="arguments-meet-no-shell"),
        pytest.param("printf '\\377'", 0, "\ufffd", "", id="bytes-that-are-no-text"),
        pytest.param("cat", 0, "", "", id="there-is-no-input"),
    ],
)
def test_commands(connected: Shell, command: str | list[str], code: int, stdout: str, stderr: str) -> None:
    """A row a kind of end."""
    ran = connected.run(command, PATIENCE)
    assert (ran.code, ran.stdout, ran.stderr, ran.cut) == (code, stdout, stderr, False)


def test_a_command_is_killed_at_its_limit_with_what_it_has_started(connected: Shell, tmp_path: Path) -> None:
    """What it said until then is told."""
    lives = f"flock --no-fork {tmp_path}/child sleep 600"
    for limit in (0.5, 4, 32):  # seconds: on a loaded machine it may not have said anything by the first
        ran = connected.run(f"echo begun; {lives} & sleep 600", limit)
        if ran.stdout and (tmp_path / "child").exists():
            break
    assert (ran.code, ran.stdout) == (None, "begun\n")
    subprocess.run(["flock", tmp_path / "child", "true"], check=True, timeout=PATIENCE)  # waits for the child's end
    with pytest.raises(CommandFailed, match="was killed at its time limit"):
        ran.checked()


def test_a_daemon_does_not_hold_its_starter(connected: Shell) -> None:
    """Though it keeps the outputs open."""
    ran = connected.run("sleep 600 & echo $!", PATIENCE)
    os.kill(int(ran.stdout), 9)
    assert ran.code == 0


def test_output_beyond_the_limit_is_cut(connected: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the command goes on: nothing fills up."""
    monkeypatch.setattr(shell, "OUTPUT_LIMIT", 1000)
    ran = connected.run("head -c 1000000 /dev/zero | tr '\\0' x; echo end >&2", PATIENCE)
    assert (ran.stdout, ran.stderr, ran.cut, ran.code) == ("x" * 1000, "end\n", True, 0)


def test_a_failed_command_is_told_with_its_output(connected: Shell) -> None:
    """As an exception."""
    with pytest.raises(CommandFailed, match="`false ; echo why; exit 3` ended with 3:\nwhy"):
        connected.run("false ; echo why; exit 3", PATIENCE).checked()


def test_commands_run_side_by_side(connected: Shell, tmp_path: Path) -> None:
    """One waits for what another does."""
    os.mkfifo(tmp_path / "fifo")
    first = threading.Thread(target=connected.run, args=[f"cat {tmp_path}/fifo > {tmp_path}/read", PATIENCE])
    first.start()
    connected.run(f"echo word > {tmp_path}/fifo", PATIENCE).checked()
    first.join()
    assert (tmp_path / "read").read_text() == "word\n"


@pytest.mark.parametrize("size", [0, 10, shell.PART, shell.PART + 1, 3 * shell.PART])
def test_files_go_to_the_guest_and_back(connected: Shell, tmp_path: Path, size: int) -> None:
    """Of any size, over a longer one."""
    content, path = os.urandom(size), tmp_path / "folder/file"
    connected.put(b"x" * (2 * size), str(path), 0o644)
    connected.put(content, str(path), 0o700)
    assert connected.get(str(path)) == content
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_not_there_is_an_error(connected: Shell) -> None:
    """Of the request alone."""
    with pytest.raises(ShellFailed, match="get: FileNotFoundError"):
        connected.get("/no/such/file")
    assert connected.run("true", PATIENCE).code == 0


def test_a_file_that_is_too_large_is_not_read(connected: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's memory is bounded."""
    monkeypatch.setattr(shell, "FILE_LIMIT", 1000)
    with pytest.raises(ShellFailed, match="more than 1000 bytes"):
        connected.get("/dev/zero")


def test_what_a_crash_has_cut_off_harms_nobody(connected: Shell) -> None:
    """Half a line before the next boot's first."""
    connected._hear(b'{"id": 5, "co')
    connected._hear(b'{"boot": "next"}\n')
    assert connected.boot_id(0) == "next"


def test_nothing_is_awaited_of_a_qemu_that_has_ended(tmp_path: Path) -> None:
    """It is told at once."""
    began = time.monotonic()
    with pytest.raises(ShellFailed, match="QEMU does not listen"):
        Shell(tmp_path / "s", lambda: False).connect(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
