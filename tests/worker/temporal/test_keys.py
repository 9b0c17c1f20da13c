"""Are the key and token files created once, private and whole, and bad ones refused with what to do?"""

import asyncio
import base64
from pathlib import Path

import pytest

from worker.daemon.node_client import secrets_complete
from worker.temporal.keys import (
    KeyFile,
    KeyMissing,
    add_key,
    create_key_file,
    create_token_file,
    read_key_file,
    read_token_file,
)
from worker.temporal.private_files import KeyFileRefused


def test_a_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    """Mode 0600, and a second making reads the first."""
    path = tmp_path / "deep" / "keys"
    first = create_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert create_key_file(path) == first
    assert [entry.name for entry in path.parent.iterdir()] == ["keys"]
    assert "secret" not in repr(first)


def test_a_token_is_made_once_and_fits_a_url(tmp_path: Path) -> None:
    """The token file keeps its token."""
    token = create_token_file(tmp_path / "token")
    assert create_token_file(tmp_path / "token") == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


GOOD = base64.b64encode(b"k" * 32).decode()


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        pytest.param(f"a {GOOD}\n", 0o640, "chmod 0600", id="group-may-read"),
        pytest.param(f"a {GOOD}\n", 0o604, "chmod 0600", id="others-may-read"),
        pytest.param("", 0o600, "no key", id="empty"),
        pytest.param("a b\n", 0o600, "line 1", id="short-key"),
        pytest.param(f"a {GOOD}\n\na {GOOD}\n", 0o600, "line 3: key id a is used twice", id="one-id-twice"),
        pytest.param(f"a/b {GOOD}\n", 0o600, "line 1", id="odd-id"),
        pytest.param("\udcff", 0o600, "not text", id="not-text"),
        pytest.param("#" * 70_000, 0o600, "65536 bytes", id="too-big"),
    ],
)
def test_a_bad_key_file_is_refused_with_what_to_do(tmp_path: Path, text: str, mode: int, reason: str) -> None:
    """Each fault of the file names the file and the fault."""
    path = tmp_path / "keys"
    path.write_bytes(text.encode(errors="surrogateescape"))
    path.chmod(mode)
    with pytest.raises(KeyFileRefused, match=reason):
        read_key_file(path)


def test_a_key_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """Absent, a folder, a link: each is named."""
    (tmp_path / "link").symlink_to(create_key_path(tmp_path))
    with pytest.raises(KeyFileRefused, match="does not exist"):
        read_key_file(tmp_path / "absent")
    with pytest.raises(KeyFileRefused, match="not a regular file"):
        read_key_file(tmp_path)
    with pytest.raises(KeyFileRefused, match="symbolic link"):
        read_key_file(tmp_path / "link")


def create_key_path(folder: Path) -> Path:
    """Make a good key file to point at."""
    create_key_file(folder / "keys")
    return folder / "keys"


def test_rotation_appends_and_stays_private(tmp_path: Path) -> None:
    """The old keys stay, in order; the new one is last; the mode is kept."""
    path = create_key_path(tmp_path)
    first = read_key_file(path)
    ring = add_key(path)
    assert read_key_file(path) == ring
    assert ring.keys[:-1] == first.keys
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["keys"]


def test_rotation_keeps_retired_keys_and_notes(tmp_path: Path) -> None:
    """An id that was ever in the file stays there."""
    path = create_key_path(tmp_path)
    path.write_text(f"# a note\nold retired\n{path.read_text()}")
    ring = add_key(path)
    assert ring.retired == ("old",)
    assert path.read_text().startswith("# a note\nold retired\n")
    assert read_key_file(path) == ring


async def test_a_worker_waits_for_a_missing_secret(tmp_path: Path) -> None:
    """It says what is missing, and goes on as soon as the line is back."""
    path = create_key_path(tmp_path)
    before = path.read_text()
    add_key(path)
    whole = path.read_text()
    KeyFile(path)
    path.write_text(before)
    told: asyncio.Queue[str] = asyncio.Queue()
    waiting = asyncio.create_task(secrets_complete(path, told.put_nowait))
    assert "lacks the secret of key" in await told.get()
    path.write_text(whole)
    await waiting


async def test_a_worker_stops_when_it_finds_one_missing(tmp_path: Path) -> None:
    """It takes no further task; its service manager starts it again, and then it waits."""
    path = create_key_path(tmp_path)
    before = path.read_text()
    path.write_text(f"{before}gone\n")
    stopped: list[str] = []
    keys = KeyFile(path, missing=stopped.append)
    assert keys.find("a-stranger's") is None
    assert not stopped
    with pytest.raises(KeyMissing, match="gone"):
        keys.find("gone")
    assert stopped == [keys.lack]


def test_a_bad_token_is_refused(tmp_path: Path) -> None:
    """A token that would break the endpoint's address is not used."""
    path = tmp_path / "token"
    path.write_text("a/../b?c\n")
    path.chmod(0o600)
    with pytest.raises(KeyFileRefused, match="no token"):
        read_token_file(path)
