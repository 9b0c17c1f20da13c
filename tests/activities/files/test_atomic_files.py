"""Is a file replaced whole, and on disk before somebody relies on it?"""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from activities.files.atomic_files import write_atomically, write_json
from tests.synced_files import watch_syncs


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        pytest.param(
            lambda file: write_json(file, {"disk": 1}), [".record"], id="a-record-by-which-something-is-unmounted-later"
        ),
        pytest.param(lambda file: write_atomically(file, b"{}"), [".record"], id="what-is-kept"),
        pytest.param(lambda file: write_atomically(file, b"{}", synced=False), [], id="what-is-made-again"),
    ],
)
def test_what_a_power_loss_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], expected: list[str]
) -> None:
    """What is not synced may be empty then: a record that is, is refused as damaged."""
    synced = watch_syncs(monkeypatch)
    write(tmp_path / "record")
    assert synced == expected
    assert [one.name for one in tmp_path.iterdir()] == ["record"]


def test_a_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    """What a crash has left of an earlier attempt is in nobody's way."""
    file = tmp_path / "record"
    file.write_text("before")
    file.with_name(".record").write_text("half")
    write_atomically(file, json.dumps({}).encode(), mode=0o640)
    assert file.read_text() == "{}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
