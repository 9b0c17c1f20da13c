"""Does a node know which build has replayed its open histories, and does a file of others only cost a check?"""

import os
from pathlib import Path

import pytest

from worker.host.replays.checked_build import FILE, LARGEST, CheckedBuild

SAYS_SO = b'{"build": "b1", "namespace": "ns"}'


def test_it_is_known_after_a_restart(tmp_path: Path) -> None:
    """For this build and namespace alone, and only until another build has."""
    CheckedBuild(tmp_path / "tempolet").checked("b1", "ns")
    known = CheckedBuild(tmp_path / "tempolet")
    assert known.is_checked("b1", "ns")
    assert not known.is_checked("b2", "ns")
    assert not known.is_checked("b1", "other")
    known.checked("b2", "ns")
    assert not known.is_checked("b1", "ns")


@pytest.mark.parametrize(
    ("content", "checked"),
    [
        pytest.param(SAYS_SO, True, id="as-written"),
        pytest.param(b"", False, id="empty"),
        pytest.param(b"[" * 4000, False, id="nested-deeply"),
        pytest.param(b'["b1", "ns"]', False, id="another-shape"),
        pytest.param(b'{"build": ["b1"], "namespace": {}}', False, id="other-types"),
        pytest.param(SAYS_SO[:-1] + b" " * LARGEST + b"}", False, id="too-large"),
    ],
)
def test_a_damaged_file_says_nothing(tmp_path: Path, content: bytes, checked: bool) -> None:
    """So the histories are replayed."""
    (tmp_path / FILE).write_bytes(content)
    assert CheckedBuild(tmp_path).is_checked("b1", "ns") is checked


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    """Nor is it followed; the next note replaces it, if it can be."""
    file = tmp_path / FILE
    (tmp_path / "other").write_bytes(SAYS_SO)
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "link":
            file.symlink_to(tmp_path / "other")
        case _:
            file.mkdir()
    known = CheckedBuild(tmp_path)
    assert not known.is_checked("b1", "ns")
    known.checked("b2", "ns")
    assert known.is_checked("b2", "ns") is (kind != "folder")
    assert (tmp_path / "other").read_bytes() == SAYS_SO
