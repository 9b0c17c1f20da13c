"""Can the files by which worker and node process agree on volumes in use be damaged, missing or too long?"""

from pathlib import Path

import pytest

from proto import volumes_in_use as files


@pytest.mark.parametrize(
    ("content", "names"),
    [
        pytest.param(b'["a", "b", "a"]', {"a", "b"}, id="names"),
        pytest.param(b'["a", 7, null, ["b"]]', {"a"}, id="other-things-are-left-out"),
        pytest.param(b'["a"', set(), id="cut"),
        pytest.param(b"\xff", set(), id="no-text"),
        pytest.param(b"7", set(), id="no-list"),
        pytest.param(b'["' + b"a" * files._MOST + b'"]', set(), id="too-long"),
        pytest.param(None, set(), id="missing"),
    ],
)
def test_what_is_read(tmp_path: Path, content: bytes | None, names: set[str]) -> None:
    """Whatever is there."""
    folder = files.in_use_folder(tmp_path)
    if content is not None:
        folder.mkdir(parents=True)
        for name in ("wanted.json", "reported.json"):
            (folder / name).write_bytes(content)
    assert files.wanted_volumes(tmp_path) == files.reported_volumes(tmp_path) == names


def test_what_is_written(tmp_path: Path) -> None:
    """Each file for itself."""
    files.write_wanted_volumes(tmp_path, {"b", "a"})
    files.write_reported_volumes(tmp_path, ["c"])
    assert files.wanted_volumes(tmp_path) == {"a", "b"}
    assert files.reported_volumes(tmp_path) == {"c"}
