"""Is an env file parsed as by the kubelet, and opened safely? The rows are those of its TestParseEnv."""

import os
from pathlib import Path

import pytest

from activities.containers.env_files import LARGEST_FILE, LONGEST_LINE, EnvFileRefused, parse_variable, read_variable

ROWS = [
    pytest.param("   A='1'\n\t\tB='2'\nC='3'\n", "B", "2", id="space-before-a-name"),
    pytest.param("# c\n\nA='foo'\n   # c\n\t\nB='bar'\n", "B", "bar", id="comments-and-blank-lines"),
    pytest.param("A='foo'\n", "C", "", id="no-such-variable"),
    pytest.param("A='foo#no comment'\n", "A", "foo#no comment", id="a-hash-in-a-value"),
    pytest.param("A='  foo  '\n", "A", "  foo  ", id="space-in-a-value"),
    pytest.param("A=''\nB='x'\n", "A", "", id="an-empty-value"),
    pytest.param("A='a=b=c'\n", "A", "a=b=c", id="equals-in-a-value"),
    pytest.param("A= 'x'\nB='y'\n", "A", "", id="space-behind-equals-is-an-empty-value"),
    pytest.param("A= 'x'\nB='y'\n", "B", "y", id="and-the-next-line-counts"),
    pytest.param("A='one\ntwo\n\nfour' # c\nB='y'\n", "A", "one\ntwo\n\nfour", id="over-many-lines"),
    pytest.param("A='one\nB=two'\nB='y'\n", "B", "y", id="a-name-within-a-value-is-none"),
    pytest.param("A='x' # c\n", "A", "x", id="a-comment-behind-it"),
    pytest.param("A='x'\nbroken\n", "A", "x", id="what-stands-below-does-not-matter"),
    pytest.param("export A='x'\n", "A", "", id="a-name-is-all-before-equals"),
    pytest.param("A='$B \\n'\n", "A", "$B \\n", id="nothing-is-expanded"),
]


@pytest.mark.parametrize(("text", "name", "value"), ROWS)
def test_values(text: str, name: str, value: str) -> None:
    """The value, or none."""
    assert parse_variable(iter(text.split("\n")), name) == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("A = 'x'", 1, id="space-before-equals"),
        pytest.param("\n='x'", 2, id="no-name"),
        pytest.param("A", 1, id="no-equals"),
        pytest.param("A=x", 1, id="no-quotes"),
        pytest.param('A="x"', 1, id="double-quotes"),
        pytest.param("A='x", 1, id="never-closed"),
        pytest.param("A='x'y", 1, id="something-behind"),
        pytest.param("A='x\ny' z", 2, id="something-behind-lines-below"),
    ],
)
def test_what_is_none_of_that_grammar(text: str, line: int) -> None:
    """The line is named, and nothing of it is quoted."""
    with pytest.raises(EnvFileRefused, match=rf"^line {line}: "):
        parse_variable(iter(text.split("\n")), "A")


def test_a_file_is_read_where_it_lies(tmp_path: Path) -> None:
    """Through folders and links within the volume; with both kinds of line ends, and bytes that are not text."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_bytes(b"A='\xff'\r\nB='2'\r\n")
    (tmp_path / "link").symlink_to("real")
    assert read_variable(tmp_path, "link/file", "A") == "\udcff"
    assert read_variable(tmp_path, "real/file", "B") == "2"


def test_nothing_but_a_plain_file_of_the_volume_is_read(tmp_path: Path) -> None:
    """No link leads out, a FIFO does not block, a file has a maximum size, and nothing is created."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (tmp_path / "host").write_text("A='host'\n")
    (volume / "out").symlink_to(tmp_path / "host")
    (volume / "up").symlink_to("../host")
    os.mkfifo(volume / "fifo")
    (volume / "folder").mkdir()
    (volume / "long").write_text(f"A='{'x' * LONGEST_LINE}'")
    (volume / "large").write_text("#" * 1000 + "\n")
    with (volume / "large").open("a") as file:
        for _ in range(LARGEST_FILE // 50_000 + 1):
            file.write("#" * 50_000 + "\n")
    for path in ("out", "up", "fifo", "folder", "long", "large", "missing/file", "missing"):
        with pytest.raises(EnvFileRefused):
            read_variable(volume, path, "A")
    assert not (volume / "missing").exists()
