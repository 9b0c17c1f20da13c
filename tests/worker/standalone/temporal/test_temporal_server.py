"""Does the embedded Temporal refuse what it cannot start with, in words that say what to do?"""

import socket
from datetime import timedelta
from pathlib import Path

import pytest

from tests.free_ports import free_ports
from worker.standalone import temporal_server
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.machine import programs
from worker.standalone.machine.process import Command
from worker.standalone.settings import Settings
from worker.standalone.temporal_server import TemporalFailed, TemporalServer, TemporalSilent


def test_a_temporal_of_an_earlier_release_is_told(tmp_path: Path) -> None:
    """It has no gateway, so nobody would find it: it would be waited for in vain."""
    server = TemporalServer(tmp_path / "state", tmp_path / "run")
    server.process.start(Command(["sleep", "60"], tmp_path / "log" / "temporal.log", {}))
    try:
        with pytest.raises(TemporalFailed, match=r"earlier release.*`tempolet down`"):
            server.start()
    finally:
        server.process.stop(within=5)


def test_a_folder_too_deep_for_a_socket_is_told(tmp_path: Path) -> None:
    """The kernel takes 107 bytes."""
    server = TemporalServer(tmp_path / "state", tmp_path / ("x" * 100), free_ports(1)[0])
    with pytest.raises(TemporalFailed, match="shorter --run-dir"):
        server.start()


def test_a_taken_port_of_the_ui_is_told(tmp_path: Path) -> None:
    """Also by an ordinary user, who would be sent the token."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = TemporalServer(tmp_path / "state", tmp_path / "run", other.getsockname()[1])
        with pytest.raises(TemporalFailed, match=r"taken by another program.*--temporal-ui-port"):
            server.start()
    assert not server.places.token.exists()


def test_a_temporal_too_slow_to_set_its_retention_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the node starts without it; on a starved machine the program that asks it took longer than 30 s to start."""
    slow = tmp_path / "temporal"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(programs, "find_program", lambda *_: slow)
    monkeypatch.setattr(temporal_server, "READY_WITHIN", timedelta(seconds=0.2))
    with pytest.raises(TemporalSilent, match="did not set the retention"):
        TemporalServer(tmp_path / "state", tmp_path / "run")._set_retention()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"nothing of SQLite's" * 300, id="overwritten"),
        pytest.param(b"SQLite format 3\0" + bytes(4080), id="its-first-page-zeroed"),
    ],
)
def test_a_damaged_database_is_told_with_what_to_do(content: bytes, tmp_path: Path) -> None:
    """The message names the files, and what an empty database means."""
    server = TemporalServer(tmp_path / "state", tmp_path / "run", free_ports(1)[0])
    server.database.parent.mkdir(parents=True)
    server.database.write_bytes(content)
    with pytest.raises(TemporalFailed, match=r"(?s)Move .*temporal\.db\* away.*No pod is restarted"):
        server.start()


def test_a_database_that_was_cut_off_is_told(tmp_path: Path) -> None:
    """Its pages are fewer than its header says, or its tables are missing."""
    server = TemporalServer(tmp_path / "state", tmp_path / "run", free_ports(1)[0])
    with server:
        pass
    for beside in server.database.parent.glob("temporal.db-*"):
        beside.unlink()  # what was not yet in the database itself
    with pytest.raises(TemporalFailed, match="cannot read its database"), server:
        pass


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param({}, "NORMAL", id="unless-asked-for"),
        pytest.param({"databaseSync": "Full"}, "FULL", id="asked-for"),
        pytest.param({"databaseSync": "Normal"}, "NORMAL", id="asked-not-to"),
    ],
)
def test_each_commit_is_on_disk_if_asked_for(history: dict[str, str], expected: str, tmp_path: Path) -> None:
    """By the operator's TempoletConfiguration."""
    given = GivenConfiguration(tempolet_configuration={"history": history} if history else {})
    server = Settings(state_dir=tmp_path, run_dir=tmp_path, given_configuration=given).temporal
    words = [str(word) for word in server.arguments(Path("/bin/temporal"))]
    assert [words[at + 1] for at, word in enumerate(words) if word == "--sqlite-pragma"] == [
        "journal_mode=WAL",
        f"synchronous={expected}",
    ]
