"""Is the operator told where the log of a failed process is, and how it ends, whatever the log and the journal are like?"""

import time
from pathlib import Path

import pytest

from activities.clients.systemd.bus import SystemdUnavailable
from activities.clients.systemd.services import SystemdServices
from worker.standalone.machine import process_log
from worker.standalone.machine.process_log import LONGEST, FileLog, JournalLog, journal_command, last_lines

UNIT = "tempolet-up-worker.service"
SEE = "see `journalctl -u tempolet-up-worker`"


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where to put another journalctl; systemd knows a start of the unit."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(SystemdServices, "invocation", lambda _, name: "0ff" if name == UNIT else "")
    monkeypatch.setattr(process_log, "JOURNAL_WITHIN", 0.5)
    return tmp_path / "journalctl"


def program(path: Path, script: str) -> None:
    """Write a program that does something when it is asked for lines, and for `--sync` nothing."""
    path.write_text(f'#!/bin/sh\n[ "$1" = --sync ] && exit 0\n{script}\n')
    path.chmod(0o755)


def test_the_end_of_a_file(tmp_path: Path) -> None:
    """The last lines, whatever bytes they hold; a missing log is mentioned, not raised."""
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(5_000)) + b"\xff last")
    assert last_lines(log, 2) == "line 4999\n\ufffd last"
    assert (
        FileLog(log).ending() == f"{log} ends:\n" + "".join(f"line {at}\n" for at in range(4996, 5000)) + "\ufffd last"
    )
    assert "no log" in FileLog(tmp_path / "nothing").ending()


def test_the_end_of_what_a_service_said(journalctl: Path) -> None:
    """Of its last start alone, in the words of the process."""
    program(journalctl, 'echo "$@"; printf "\\377 last"')
    assert JournalLog(UNIT).ending() == (
        "`journalctl -u tempolet-up-worker` ends:\n"
        "--quiet --no-pager --output=cat --lines=5 _SYSTEMD_INVOCATION_ID=0ff\n\ufffd last"
    )


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 1", id="there-is-no-journal"),
        pytest.param("echo lost; exec sleep 60", id="one-that-hangs"),
        pytest.param("exec yes", id="one-that-never-ends"),
    ],
)
def test_a_journal_that_does_not_answer(journalctl: Path, script: str) -> None:
    """The command is told, soon."""
    program(journalctl, script)
    began = time.monotonic()
    assert JournalLog(UNIT).ending() == SEE
    assert time.monotonic() - began < 30


def test_a_machine_without_journalctl(monkeypatch: pytest.MonkeyPatch, journalctl: Path) -> None:
    """Likewise."""
    monkeypatch.setattr(process_log, "search_path", lambda: str(journalctl.parent))
    assert JournalLog(UNIT).ending() == SEE


def test_a_systemd_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, journalctl: Path) -> None:
    """Likewise; and one that knows of no start."""

    def refuses(_: SystemdServices, name: str) -> str:
        raise SystemdUnavailable(name)

    program(journalctl, "echo of another")
    assert JournalLog("tempolet-up-node.service").last_lines() == ""
    monkeypatch.setattr(SystemdServices, "invocation", refuses)
    assert JournalLog(UNIT).ending() == SEE


def test_long_lines_are_cut(journalctl: Path) -> None:
    """As those of a file."""
    program(journalctl, "head -c 1000000 /dev/zero | tr '\\0' x; echo end")
    assert JournalLog(UNIT).last_lines() == "x" * (LONGEST - 4) + "end"


def test_a_name_with_backslashes_is_quoted() -> None:
    """So that a shell hands it on as it is."""
    assert journal_command("tempolet-up-run-tempolet\\x2d2-*") == "journalctl -u 'tempolet-up-run-tempolet\\x2d2-*'"
    assert JournalLog("tempolet-up-run-a\\x2db-node.service").where == "`journalctl -u 'tempolet-up-run-a\\x2db-node'`"
