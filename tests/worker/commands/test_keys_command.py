"""Does `tempolet keys` list the key ids, add a key, and never print one?"""

from pathlib import Path

import pytest

from worker.cli import run
from worker.commands.access.exits import Exit
from worker.temporal.keys import create_key_file, create_token_file, read_key_file

CONFIGURATION = """
apiVersion: tempolet.dev/v1alpha1
kind: TempoletConfiguration
codec: {address: '127.0.0.1:8234'}
"""


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """Name a node in a folder, whose worker has made its key and token."""
    create_key_file(tmp_path / "tempolet" / "payload.keys")
    create_token_file(tmp_path / "tempolet" / "codec.token")
    (tmp_path / "own.yaml").write_text(CONFIGURATION)
    return ["--root-dir", str(tmp_path), "--tempolet-config", str(tmp_path / "own.yaml")]


def test_a_key_is_named_and_never_shown(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its id, its file, and where payloads are decoded."""
    assert run(["keys", *options]) == Exit.DONE
    said = capsys.readouterr().out
    [line] = (tmp_path / "tempolet" / "payload.keys").read_text().splitlines()
    key_id, secret = line.split()
    token = (tmp_path / "tempolet" / "codec.token").read_text().strip()
    assert f"{key_id}  encrypts and decrypts" in said
    assert secret not in said
    assert f"http://127.0.0.1:8234/{token}" in said


def test_a_socket_is_named_without_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on a node of `tempolet up`."""
    create_key_file(tmp_path / "tempolet" / "payload.keys")
    own = tmp_path / "own.yaml"
    own.write_text(
        "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\ncodec: {socket: /run/x/codec.sock}\n"
    )
    assert run(["keys", "--root-dir", str(tmp_path), "--tempolet-config", str(own)]) == Exit.DONE
    assert "decode socket (the worker's): /run/x/codec.sock" in capsys.readouterr().out


def test_rotation_adds_a_key_that_seals(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The old key still decrypts, and the output says what to do next."""
    assert run(["keys", "--rotate", *options]) == Exit.DONE
    said = capsys.readouterr().out
    old, new = read_key_file(tmp_path / "tempolet" / "payload.keys").keys
    assert said.splitlines()[:2] == [f"{old.key_id}  decrypts", f"{new.key_id}  encrypts and decrypts"]
    assert "Restart worker and poller" in said


def test_without_a_key_file_it_says_how_one_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong folder gives an error message, and no file is created."""
    assert run(["keys", "--root-dir", str(tmp_path)]) == Exit.USAGE
    assert "payload.keys does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
