"""Does a poller know that the machine was restarted since the last one?"""

from pathlib import Path

import pytest

from tests.synced_files import watch_syncs
from worker.machine.boots import Boots


@pytest.mark.parametrize(
    ("kept", "is_new"),
    [
        pytest.param(None, False, id="the-first-start-of-a-node-is-no-reboot"),
        pytest.param(b"one\n", False, id="the-same-boot"),
        pytest.param(b"another\n", True, id="another-boot"),
        pytest.param(b"", False, id="an-empty-file-says-nothing"),
        pytest.param(b"\xff\xfe", False, id="a-damaged-file-says-nothing"),
    ],
)
def test_a_reboot_is_seen_once(tmp_path: Path, kept: bytes | None, *, is_new: bool) -> None:
    """What is kept is the boot of now."""
    source, file = tmp_path / "source", tmp_path / "boot-id"
    source.write_text("one\n")
    if kept is not None:
        file.write_bytes(kept)
    boots = Boots(file, source)
    assert boots.is_new is is_new
    boots.keep()
    assert not boots.is_new
    assert not Boots(file, source).is_new
    assert file.read_text() == "one\n"


def test_what_is_kept_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power loss would leave an empty file, which says nothing, and the pods would not be told."""
    source = tmp_path / "source"
    source.write_text("one\n")
    synced = watch_syncs(monkeypatch)
    Boots(tmp_path / "boot-id", source).keep()
    assert synced == [".boot-id", tmp_path.name]


def test_a_kernel_that_tells_no_boot_tells_no_reboot(tmp_path: Path) -> None:
    """And what was kept stays."""
    file = tmp_path / "boot-id"
    file.write_text("one\n")
    boots = Boots(file, tmp_path / "missing")
    boots.keep()
    assert not boots.is_new
    assert file.read_text() == "one\n"


def test_a_folder_that_takes_no_file_is_no_matter(tmp_path: Path) -> None:
    """The pods are told again at the next start."""
    source = tmp_path / "source"
    source.write_text("one\n")
    Boots(tmp_path / "missing" / "boot-id", source).keep()
