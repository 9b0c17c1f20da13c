"""Does the journal give back the states that it was told, and write no more than that?"""

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload

from proto.temporal.node import NodeObserved, NodeStart
from proto.temporal.pod import PodOutcome, PodStart
from proto.temporal.pod_inputs import CarriedAction
from tests.worker.stand_in.journal.journals import (
    AT,
    PLACE,
    SOON,
    entry,
    journal_in,
    kept_in,
    numbers,
    start,
    workflow_id,
)
from worker.daemon.troubles import Troubles
from worker.stand_in.journal import journal as journals
from worker.stand_in.journal import state, tombstones
from worker.stand_in.journal.kept import Kept, NotAppended, Place
from worker.stand_in.journal.private_folder import PrivateFolder
from worker.stand_in.journal.sealed import SealedValues
from worker.stand_in.journal.state import write_state
from worker.temporal.keys import add_key

U1, U2 = workflow_id("u1"), workflow_id("u2")


def test_a_state_comes_back(tmp_path: Path) -> None:
    """As the next run would be started with it."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.keep(U2, start("u2", value="other"), Place())
    assert kept_in(tmp_path) == {"u1": Kept(U1, start("u1"), PLACE), "u2": Kept(U2, start("u2", value="other"))}


def test_a_number_is_known_without_the_rest_of_the_state(tmp_path: Path) -> None:
    """As long as the state is: also of one that an earlier process has kept."""
    with journal_in(tmp_path) as journal:
        assert journal.behaviour(U1) is None
        journal.keep(U1, start("u1"), PLACE)
        assert journal.behaviour(U1) == start("u1").behaviour
    with journal_in(tmp_path) as journal:
        journal.read_all()
        assert journal.behaviour(U1) == start("u1").behaviour
        journal.forget(U1)
        assert journal.behaviour(U1) is None


def test_the_node_has_a_journal_too(tmp_path: Path) -> None:
    """Its workflow leads the images."""
    node = NodeStart("n", 3, NodeObserved(to_prepull=("busybox",)))
    with journal_in(tmp_path) as journal:
        journal.keep("node/n", node, PLACE)
        journal.keep(workflow_id("node"), start("node"), PLACE)
    assert kept_in(tmp_path) == {
        "n": Kept("node/n", node, PLACE),
        "node": Kept(workflow_id("node"), start("node"), PLACE),
    }


def test_what_was_under_way_comes_back_as_a_continued_run_reads_it(tmp_path: Path) -> None:
    """A request is read as JSON, and converted by the name of its activity."""
    carried = (CarriedAction("PullImage", {"image": "busybox"}),)
    with journal_in(tmp_path) as journal:
        journal.keep(U1, replace(start(), under_way=carried), PLACE)
    assert kept_in(tmp_path)["u1"].start == replace(start(), under_way=carried)


def test_a_state_is_taken_when_it_is_told(tmp_path: Path) -> None:
    """The workflow changes its facts at once, and the thread writes later."""
    told = start("u1")
    with journal_in(tmp_path) as journal:
        journal.keep(U1, told, PLACE)
        assert told.observed is not None
        told.observed.containers["c"].attempt = 9
    assert kept_in(tmp_path)["u1"].start == start("u1")


def inode(folder: Path, uid: str = "u1") -> int:
    """Identify the file of a state: a replaced one is another."""
    return (folder / "away" / uid / "state").stat().st_ino


@pytest.mark.parametrize(
    ("again", "place", "folded", "writes"),
    [
        pytest.param(start("u1"), PLACE, 0, False, id="the-same"),
        pytest.param(start("u1"), Place("namespace-id", "run-1", 99), 0, False, id="the-same-in-a-longer-history"),
        pytest.param(start("u1"), Place("namespace-id", "run-2", 3), 0, True, id="the-same-in-a-new-run"),
        pytest.param(start("u1"), PLACE, 3, True, id="the-same-with-entries-folded"),
        pytest.param(start("u1", restarts=1), PLACE, 0, True, id="another-state"),
        pytest.param(start("u1", value="edited"), PLACE, 0, True, id="another-pod"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_an_equal_state_is_not_written_again(
    tmp_path: Path, again: PodStart, place: Place, folded: int, *, writes: bool, restarted: bool
) -> None:
    """An idle pod writes nothing, also after a restart."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        assert journal.flush(U1, SOON)
        before = inode(tmp_path)
        if not restarted:
            journal.keep(U1, again, place, folded=folded)
    if restarted:
        with journal_in(tmp_path) as journal:
            journal.read_all()
            journal.keep(U1, again, place, folded=folded)
    assert (inode(tmp_path) != before) == writes


def test_of_many_states_few_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest one is, at the latest when the journal is closed."""
    writes: list[str] = []

    def written(folder: PrivateFolder, sealing: SealedValues, workflow: str, values: Sequence[Payload]) -> None:
        writes.append(workflow)
        write_state(folder, sealing, workflow, values)

    monkeypatch.setattr(journals, "GATHER", 60.0)
    monkeypatch.setattr(journals, "write_state", written)
    with journal_in(tmp_path) as journal:
        for restarts in range(50):
            journal.keep(U1, start("u1", restarts=restarts), PLACE)
    assert writes == [U1]
    assert kept_in(tmp_path)["u1"].start == start("u1", restarts=49)


@pytest.mark.parametrize("odd", ["pod/n/default/web/..", "pod/n/default/web/a/b", "pod/n/default/web/", "x", ""])
def test_a_workflow_that_has_no_folder_is_refused(tmp_path: Path, odd: str) -> None:
    """A UID may be anybody's choice, and the journal is written by root."""
    troubles = Troubles()
    with journal_in(tmp_path, troubles=troubles) as journal:
        journal.keep(odd, start(), PLACE)
        journal.forget(odd)
        with pytest.raises(NotAppended):
            journal.append(odd, entry())
        assert journal.entries(odd).entries == ()
        assert not journal.flush(odd, SOON)
        assert troubles.lines() != ()
    assert not (tmp_path / "away").exists()


def test_a_pod_is_kept_before_its_first_decision(tmp_path: Path) -> None:
    """Nothing is observed yet."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, replace(start("u1"), observed=None), Place())
    assert kept_in(tmp_path)["u1"].start == replace(start("u1"), observed=None)


def test_a_state_that_is_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not be read again; the one before it stays."""
    monkeypatch.setattr(state, "LARGEST_STATE", 3000)
    troubles = Troubles()
    with journal_in(tmp_path, troubles=troubles) as journal:
        journal.keep(U1, start("u1"), PLACE)
        assert journal.flush(U1, SOON)
        journal.keep(U1, start("u1", value=os.urandom(9000).hex()), PLACE)
        assert not journal.flush(U1, SOON)
    assert troubles.lines() != ()
    assert kept_in(tmp_path)["u1"].start == start("u1")


def test_folders_that_others_may_read_are_made_private(tmp_path: Path) -> None:
    """As after an operator's chmod."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        assert journal.flush(U1, SOON)
        for path in (tmp_path / "away", tmp_path / "away" / "u1"):
            path.chmod(0o755)
        journal.append(U1, entry(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "away", tmp_path / "away" / "u1")} == {0o700}


def test_the_journal_has_room_for_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is gone makes room."""
    monkeypatch.setattr(journals, "MOST_WORKFLOWS", 1)
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.keep(U2, start("u2"), PLACE)
        with pytest.raises(NotAppended, match="no room"):
            journal.append(U2, entry())
        journal.forget(U1)
        assert journal.flush(U1, SOON)
        journal.keep(U2, start("u2"), PLACE)
    assert list(kept_in(tmp_path)) == ["u2"]


def test_only_root_may_read_the_files_and_they_are_sealed(tmp_path: Path) -> None:
    """Neither a variable's value nor the names of a pod's parts are in any of them."""
    secret = "xyzzy-canary-9f4e"
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1", value=secret), PLACE)
        journal.append(U1, entry(1, {"env": [secret]}))
        journal.append(U1, entry(1, [secret, os.urandom(512 * 1024).hex()]))
        journal.forget(U2, PodOutcome("Failed", "Error", 0, secret))
    found = list((tmp_path / "away").rglob("*"))
    assert {one.name for one in found} == {"u1", "state", "story", "left-out", tombstones.FILE}
    for path in (tmp_path / "away", *found):
        assert path.stat().st_uid == os.geteuid()
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
        if path.is_file():
            assert all(word not in path.read_bytes() for word in (secret.encode(), b"busybox", b"StartContainer"))


def test_a_new_key_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """What the old one sealed is read, and written anew with the next state and tombstone: then the old key is not needed."""
    idle = workflow_id("idle")
    with journal_in(tmp_path, now=lambda: AT) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
        journal.keep(idle, start("idle"), PLACE)
        journal.forget(U2)
    old, new = (key.key_id for key in add_key(tmp_path / "keys").keys)
    with journal_in(tmp_path, now=lambda: AT) as journal:
        journal.read_all()
        journal.append(U1, entry(2))
        assert numbers(journal.entries(U1)) == [1, 2]
        journal.end_story(U1, 2)
        journal.keep(U1, start("u1"), PLACE)
        journal.keep(idle, start("idle"), PLACE)
        journal.forget(workflow_id("u3"))
    sealed = b"".join(path.read_bytes() for path in (tmp_path / "away").rglob("*") if path.is_file())
    assert (old.encode() in sealed, new.encode() in sealed) == (False, True)
    with journal_in(tmp_path, now=lambda: AT) as journal:
        assert sorted(journal.read_all().gone) == [U2, workflow_id("u3")]
