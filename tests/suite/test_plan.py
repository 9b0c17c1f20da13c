"""Is every test file in exactly one session, and do the sessions end at about the same time?"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.files import find_test_files, read_durations, write_durations
from tests.suite.plan import KINDS, Planned, expected, kind_of, next_session, plan, split

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/deploy", "tests/suite")
NODE, ONE_NODE, CLUSTER, CHAOS, PURE, REST = KINDS


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        pytest.param("tests/cluster/streams/test_streams.py", CLUSTER, id="of-the-cluster"),
        pytest.param("tests/cluster/streams/test_kubectl.py", ONE_NODE, id="of-the-cluster-with-one-node"),
        pytest.param("tests/chaos/node/test_scenarios.py", CHAOS, id="with-a-runtime-that-is-killed"),
        pytest.param("tests/node/volumes/test_csi.py", NODE, id="of-a-node-in-a-folder"),
        pytest.param("tests/worker/node/object/test_own_node.py", REST, id="only-the-first-folder-counts"),
        pytest.param("tests/workflows/decide/test_versions.py", PURE, id="of-code-that-awaits-nothing"),
        pytest.param("tests/test_session_end.py", REST, id="in-no-folder"),
    ],
)
def test_a_file_goes_to_those_that_share_its_fixtures(file: str, kind: object) -> None:
    """By its folder."""
    assert kind_of(file) is kind


@pytest.mark.parametrize(
    ("measured", "seconds"),
    [
        pytest.param({"tests/node/test_a.py": 7.0}, 7.0, id="as-measured"),
        pytest.param({"tests/node/old/test_a.py": 7.0}, 7.0, id="moved-it-keeps-its-figure"),
        pytest.param({"tests/worker/test_a.py": 7.0}, NODE.guess, id="one-of-another-kind-with-this-name-is-another"),
        pytest.param(
            {"tests/node/x/test_a.py": 7.0, "tests/node/y/test_a.py": 9.0}, 8.0, id="two-may-have-been-it-so-the-mean"
        ),
        pytest.param({"tests/node/test_b.py": 2.0, "tests/node/test_c.py": 4.0}, 3.0, id="new-it-is-the-mean"),
        pytest.param({}, NODE.guess, id="nothing-was-measured"),
    ],
)
def test_how_long_a_file_takes_is_estimated(measured: dict[str, float], seconds: float) -> None:
    """Of what was measured of it, or of files like it."""
    assert expected(["tests/node/test_a.py"], measured) == {"tests/node/test_a.py": seconds}


@pytest.mark.parametrize(
    ("seconds", "number", "lengths"),
    [
        pytest.param([5, 4, 3, 3, 3], 2, [8, 10], id="the-longest-first"),
        pytest.param([10, 1, 1], 2, [10, 2], id="one-that-is-longer-than-the-rest-is-alone"),
        pytest.param([1], 3, [1], id="no-empty-part"),
        pytest.param([], 1, [], id="nothing"),
    ],
)
def test_files_are_divided_evenly(seconds: list[float], number: int, lengths: list[float]) -> None:
    """Each goes to the part that is the shortest so far."""
    files = {f"test_{index}.py": value for index, value in enumerate(seconds)}
    parts = split(files, files, number)
    assert [sum(files[file] for file in part) for part in parts] == lengths


def test_every_file_is_in_exactly_one_session() -> None:
    """Of the real tree, with the durations that are recorded."""
    files = find_test_files(ROOT)
    planned = plan(files, expected(files, read_durations()))
    assert sorted(file for one in planned for file in one.files) == files
    assert all(kind_of(file) is one.kind for one in planned for file in one.files)


def test_pytest_finds_no_file_that_is_not_planned() -> None:
    """Asked by itself, of two folders; and nowhere is a file by pytest's other pattern."""
    assert not [*(ROOT / "tests").rglob("*_test.py")]
    words = ("-q", "--collect-only", "-p", "no:cacheprovider", "-o", "addopts=", *FOLDERS)
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.partition("::")[0] for line in said.splitlines() if "::" in line} == set(
        find_test_files(ROOT, FOLDERS)
    )


def planned(name: str, seconds: float) -> Planned:
    """Plan a session of a kind."""
    return Planned(next(kind for kind in KINDS if kind.name == name), (f"{name}.py",), seconds)


@pytest.mark.parametrize(
    ("waiting", "running", "processors", "chosen"),
    [
        pytest.param(["cluster", "node"], [], 2, "cluster", id="the-longest"),
        pytest.param(["cluster", "node"], ["node"] * 3, 2, "cluster", id="there-is-room"),
        pytest.param(["cluster", "chaos"], ["node", "node", "node", "cluster"], 2, "cluster", id="and-for-one-more"),
        pytest.param(["cluster", "node"], ["cluster", *["node"] * 4], 2, "node", id="the-longest-that-fits"),
        pytest.param(["cluster", "node"], ["node"] * 6, 2, None, id="more-would-crowd-the-machine"),
        pytest.param(["cluster", "node"], ["node"] * 6, 4, "cluster", id="which-may-be-larger"),
        pytest.param(["cluster"], [], 0, "cluster", id="one-runs-on-any-machine"),
        pytest.param(["pure"], ["node"] * 6, 2, "pure", id="one-that-yields-fits-in-always"),
        pytest.param(["pure"], ["pure", *["node"] * 6], 2, "pure", id="and-a-second"),
        pytest.param(["pure"], ["pure", "pure", *["node"] * 6], 2, None, id="and-not-three"),
        pytest.param(["pure"], ["pure"] * 4, 2, "pure", id="without-others-there-are-more"),
        pytest.param(["pure"], ["pure"] * 5, 2, None, id="and-not-too-many"),
        pytest.param(["node"], ["pure"] * 5, 2, "node", id="nobody-waits-for-those-that-yield"),
    ],
)
def test_sessions_run_side_by_side(waiting: list[str], running: list[str], processors: int, chosen: str | None) -> None:
    """As many as keep the processors busy, and no more."""
    sessions = [planned(name, 10 - index) for index, name in enumerate(waiting)]
    found = next_session(sessions, [planned(name, 1).kind for name in running], processors)
    assert (found and found.kind.name) == chosen


def test_sessions_that_start_a_whole_cluster_are_a_kind() -> None:
    """Every file that has the fixture, and no other."""
    files = [
        one for one in find_test_files(ROOT, ("tests/cluster",)) if re.search(r"\bone_node: ", (ROOT / one).read_text())
    ]
    assert files == [one for one in find_test_files(ROOT) if kind_of(one) is ONE_NODE]


def test_durations_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Rounded to a tenth, by path."""
    path = tmp_path / "durations.json"
    assert read_durations(path) == {}
    write_durations({"b.py": 1.26, "a.py": 3.0}, path)
    assert list(read_durations(path).items()) == [("a.py", 3.0), ("b.py", 1.3)]
