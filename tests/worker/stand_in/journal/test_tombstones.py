"""What is left of a pod that is gone, and for how long?"""

from datetime import timedelta
from pathlib import Path

import pytest

from proto.temporal.pod import PodOutcome
from tests.worker.stand_in.journal.journals import (
    AT,
    PLACE,
    SOON,
    entry,
    folders,
    journal_in,
    kept_in,
    start,
    workflow_id,
)
from worker.stand_in.journal import journal as journals
from worker.stand_in.journal import tombstones
from worker.stand_in.journal.journal import Journal

U1, U2 = workflow_id("u1"), workflow_id("u2")
ENDED = PodOutcome("Failed", "Error", 2)


def test_a_pod_that_is_gone_leaves_a_tombstone(tmp_path: Path) -> None:
    """And nothing else."""
    with journal_in(tmp_path, now=lambda: AT) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
        journal.forget(U1, PodOutcome("Failed", "Evicted", 3, "m" * 5000))
        assert journal.flush(U1, SOON)
        assert journal.tombstone(U1) is not None
        assert folders(tmp_path) == [tombstones.FILE]
    with journal_in(tmp_path, now=lambda: AT) as journal:
        assert journal.tombstone(U1) is None, "not read yet"
        recovered = journal.read_all()
        found = recovered.gone[U1]
        assert (found.uid, found.at, journal.tombstone(U1)) == ("u1", AT, found)
        assert found.outcome == PodOutcome("Failed", "Evicted", 3, "m" * 256)
        assert recovered.kept == ()


def test_a_pod_may_live_again(tmp_path: Path) -> None:
    """The source may list a pod again under its UID; its story begins anew."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.keep(U1, start("u1"), PLACE, folded=journal.append(U1, entry(1)))
        journal.forget(U1)
        journal.keep(U1, start("u1", restarts=1), PLACE)
        assert journal.flush(U1, SOON)
        assert journal.tombstone(U1) is None
        journal.append(U1, entry(2))
    found = kept_in(tmp_path)["u1"]
    assert (found.start, [one.entry for one in found.tail.entries]) == (start("u1", restarts=1), [entry(2)])


def test_a_burial_that_was_interrupted_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tombstone is there, the folder still, too: the pod is gone."""
    with monkeypatch.context() as crash, journal_in(tmp_path) as journal:
        crash.setattr(Journal, "_remove", lambda *_: None)
        journal.keep(U1, start("u1"), PLACE)
        assert journal.flush(U1, SOON)
        journal.forget(U1, ENDED)
    assert (tmp_path / "away" / "u1" / "state").exists()
    with journal_in(tmp_path) as journal:
        recovered = journal.read_all()
        assert (recovered.kept, recovered.gone[U1].outcome) == ((), ENDED)
        journal.forget_others(())
        assert journal.flush(U1, SOON)
        assert journal.tombstone(U1) == recovered.gone[U1]
    assert folders(tmp_path) == [tombstones.FILE]


def test_tombstones_are_bounded_in_time_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go, and the file does not grow for ever."""
    monkeypatch.setattr(journals, "MOST_TOMBSTONES", 3)
    clock = AT
    sizes = set()
    with journal_in(tmp_path, now=lambda: clock, retention=timedelta(days=1)) as journal:
        for number in range(40):
            journal.forget(workflow_id(f"u{number}"))
            assert journal.flush(workflow_id(f"u{number}"), SOON)
            sizes.add((tmp_path / "away" / tombstones.FILE).stat().st_size)
        assert max(sizes) <= 7 * min(sizes)
    with journal_in(tmp_path, now=lambda: AT) as journal:
        assert sorted(journal.read_all().gone) == [workflow_id(f"u{number}") for number in (37, 38, 39)]
    clock = AT + timedelta(days=2)
    with journal_in(tmp_path, now=lambda: clock, retention=timedelta(days=1)) as journal:
        assert journal.read_all().gone == {}
    clock = AT - timedelta(days=400)
    with journal_in(tmp_path, now=lambda: clock, retention=timedelta(days=1)) as journal:
        assert len(journal.read_all().gone) == 3, "a clock that was set back makes nothing older"


def test_pods_that_closed_meanwhile_are_removed(tmp_path: Path) -> None:
    """Only what was there at the start: a pod of this process may be younger than the list of open workflows."""
    with journal_in(tmp_path) as journal:
        for uid in ("open", "closed", "kept-since"):
            journal.keep(workflow_id(uid), start(uid), PLACE)
    for uid in ("broken", "broken-but-open"):
        (tmp_path / "away" / uid).mkdir(mode=0o700)
        (tmp_path / "away" / uid / "state").write_bytes(b"rubbish")
    with journal_in(tmp_path) as journal:
        assert set(journal.read_all().unreadable) == {"broken", "broken-but-open"}
        journal.keep(workflow_id("kept-since"), start("kept-since"), PLACE)
        journal.keep(workflow_id("new"), start("new"), PLACE)
        journal.forget_others({workflow_id("open"), workflow_id("broken-but-open")})
    assert folders(tmp_path) == [tombstones.FILE, "broken-but-open", "kept-since", "new", "open"]


def test_a_pod_may_have_any_uid(tmp_path: Path) -> None:
    """Also one that is called like a file of the journal."""
    uids = ["gone", "state", "node", "story"]
    with journal_in(tmp_path) as journal:
        for uid in uids:
            journal.keep(workflow_id(uid), start(uid), PLACE)
        journal.forget(workflow_id("other"))
    assert sorted(kept_in(tmp_path)) == sorted(uids)
