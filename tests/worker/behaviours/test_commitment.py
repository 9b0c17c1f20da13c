"""Which behaviours is a node committed to: a new one, one that was upgraded, one whose operator has said so?"""

import json
from pathlib import Path

import pytest

from worker.behaviours import commitment
from worker.behaviours.commitment import (
    BEFORE_COMMITS,
    FILE,
    NEWEST,
    SIGN_OF_A_POLLER,
    Behaviours,
    Commitment,
    CommitmentTooOld,
)

OLD = Behaviours(1, 1)
NEWER = Behaviours(NEWEST.pods + 1, NEWEST.node + 1)


def kept(state_dir: Path) -> Behaviours:
    """Read the file."""
    return Behaviours(**json.loads((state_dir / FILE).read_text()))


def keep(state_dir: Path, numbers: Behaviours) -> Commitment:
    """Write the file as a release has left it."""
    (state_dir / FILE).write_text(json.dumps({"pods": numbers.pods, "node": numbers.node}))
    return Commitment(state_dir)


def test_a_new_node_is_committed_to_the_newest(tmp_path: Path) -> None:
    """No older release ever ran there; the folder may not be there yet."""
    assert Commitment(tmp_path / "state").settle() == NEWEST
    assert kept(tmp_path / "state") == NEWEST


def test_a_node_of_a_release_without_the_file_stays_with_its_numbers(tmp_path: Path) -> None:
    """So that the way back stays open."""
    (tmp_path / SIGN_OF_A_POLLER).write_text("1\n")
    assert Commitment(tmp_path).settle() == BEFORE_COMMITS
    assert Commitment(tmp_path).numbers == BEFORE_COMMITS


def test_worker_and_poller_agree_on_a_new_node(tmp_path: Path) -> None:
    """Whichever comes first: the poller leaves its sign after the file."""
    assert Commitment(tmp_path).settle() == NEWEST
    (tmp_path / SIGN_OF_A_POLLER).write_text("1\n")
    assert Commitment(tmp_path).settle() == NEWEST


@pytest.mark.parametrize(
    ("before", "at_start", "used", "after"),
    [
        pytest.param(OLD, False, OLD, OLD, id="a-new-release-changes-nothing-by-itself"),
        pytest.param(OLD, True, NEWEST, NEWEST, id="unless-its-start-commits"),
        pytest.param(NEWEST, True, NEWEST, NEWEST, id="which-may-be-repeated"),
        pytest.param(NEWER, False, NEWEST, NEWER, id="an-older-release-uses-what-it-knows"),
        pytest.param(NEWER, True, NEWEST, NEWER, id="and-takes-nothing-back"),
    ],
)
def test_what_a_start_does(
    tmp_path: Path, before: Behaviours, at_start: bool, used: Behaviours, after: Behaviours
) -> None:
    """The numbers in use, and those in the file."""
    made = keep(tmp_path, before)
    assert made.settle(at_start=at_start) == made.numbers == used
    assert kept(tmp_path) == after


def test_a_commitment_reaches_who_runs(tmp_path: Path) -> None:
    """The file is read each time."""
    running = keep(tmp_path, OLD)
    assert running.numbers == OLD
    assert Commitment(tmp_path).commit() == NEWEST
    assert running.numbers == NEWEST


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pods": "x", "node": 1}'])
def test_a_file_that_cannot_be_read_raises_nobody(tmp_path: Path, text: str) -> None:
    """The lower numbers are always safe."""
    (tmp_path / FILE).write_text(text)
    assert Commitment(tmp_path).settle() == Commitment(tmp_path).numbers == BEFORE_COMMITS


def test_a_release_that_no_longer_knows_the_numbers_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs would be left alone; a release in between raises them."""
    monkeypatch.setattr(commitment, "OLDEST", NEWEST.pods)
    with pytest.raises(
        CommitmentTooOld,
        match=rf"this release knows {NEWEST.pods} to {NEWEST.pods} of pods.*run an older release first",
    ):
        keep(tmp_path, OLD).settle()


def test_a_disk_that_takes_no_file_keeps_nobody_from_starting(tmp_path: Path) -> None:
    """The lower numbers apply then; only the command fails."""
    (tmp_path / "file").touch()
    here = Commitment(tmp_path / "file" / "state")
    assert here.settle(at_start=True) == BEFORE_COMMITS
    with pytest.raises(OSError, match="file"):
        here.commit()
