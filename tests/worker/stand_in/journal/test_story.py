"""Is every entry of an outage there afterwards, once and in order, or counted?"""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proto.temporal.away import EntryKind
from tests.synced_files import watch_syncs
from tests.worker.stand_in.journal.journals import (
    PLACE,
    SOON,
    entry,
    journal_in,
    kept_in,
    keys_of,
    numbers,
    start,
    with_restarts,
    workflow_id,
)
from worker.stand_in.journal import story
from worker.stand_in.journal.kept import LeftOut, NotAppended
from worker.stand_in.journal.private_folder import PrivateFolder
from worker.stand_in.journal.reading import JournalReader
from worker.stand_in.journal.sealed import SealedValues
from worker.stand_in.journal.story import STORY, StoryFile, read_story

U1, U2 = workflow_id("u1"), workflow_id("u2")


def test_the_tail_of_a_story_follows_its_state(tmp_path: Path) -> None:
    """Only entries that are not in the state yet."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        assert [journal.append(U1, entry(number)) for number in range(4)] == [1, 2, 3, 4]
        journal.keep(U1, with_restarts(start("u1"), 1), PLACE, folded=2)
    found = kept_in(tmp_path)["u1"]
    assert [(one.position, one.entry) for one in found.tail.entries] == [(3, entry(2)), (4, entry(3))]
    assert (found.folded, found.is_complete) == (2, True)


def test_a_batched_entry_is_there_for_the_next_process(tmp_path: Path) -> None:
    """Only a machine that crashes may lose it."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1), batched=True)
        assert numbers(journal.entries(U1)) == [1]
    assert numbers(kept_in(tmp_path)["u1"].tail) == [1]


def test_entries_are_on_disk_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the caller says that they may wait; the name of a new file is put there, too."""
    synced = watch_syncs(monkeypatch)
    with journal_in(tmp_path) as journal:
        synced.clear()
        journal.keep(U1, start("u1"), PLACE)
        assert journal.flush(U1, SOON)
        assert synced == [tmp_path.name, "away", ".state", "u1"]
        synced.clear()
        journal.append(U1, entry(1))
        assert synced == ["u1", "story"]
        synced.clear()
        journal.append(U1, entry(2), batched=True)
        assert synced == []
        journal.append(U1, entry(3))
        assert synced == ["story"]


def test_a_crash_at_any_byte_of_an_append(tmp_path: Path) -> None:
    """The entries before it are there, the torn one is not, and the next one is read."""
    sealing = SealedValues(keys_of(tmp_path))
    path = tmp_path / "away" / "u1" / STORY
    with PrivateFolder.open(tmp_path / "away", make=True) as away, away.below("u1", make=True) as folder:
        file = StoryFile(sealing, U1)
        file.append(folder, entry(1), synced=False)
        whole = path.stat().st_size
        file.append(folder, entry(2, {"ip": "10.0.0.1"}), synced=False)
        content = path.read_bytes()
        for length in range(whole, len(content)):
            path.write_bytes(content[:length])
            found = read_story(folder, sealing, U1, 0)
            assert (numbers(found), found.unreadable) == ([1], 0)
            assert StoryFile(sealing, U1).append(folder, entry(3), synced=False) == 2
            found = read_story(folder, sealing, U1, 0)
            assert [one.entry for one in found.entries] == [entry(1), entry(3)]


def test_a_crash_before_a_state_has_its_name(tmp_path: Path) -> None:
    """The one before it counts, and the next one is written."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
    (tmp_path / "away" / "u1" / ".state").write_bytes(b"half of a st")
    assert kept_in(tmp_path)["u1"].start == start("u1")
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1", restarts=1), PLACE)
    assert kept_in(tmp_path)["u1"].start == start("u1", restarts=1)
    assert sorted(one.name for one in (tmp_path / "away" / "u1").iterdir()) == ["state"]


def test_positions_rise_over_restarts_and_outages(tmp_path: Path) -> None:
    """A told story is removed; what a state has folded is not told as its tail again."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
    with journal_in(tmp_path) as journal:
        journal.read_all()
        assert journal.append(U1, entry(2)) == 2
        assert not journal.end_story(U1, 1)
        assert numbers(journal.entries(U1)) == [1, 2]
        assert journal.end_story(U1, 2)
        assert numbers(journal.entries(U1)) == []
        assert journal.append(U1, entry(3)) == 3
        journal.keep(U1, with_restarts(start("u1"), 1), PLACE)
    found = kept_in(tmp_path)["u1"]
    assert (found.folded, numbers(found.tail)) == (2, [3])


def test_what_was_not_appended_is_not_there_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller has decided by it. A disk that did not confirm the write may have it all the same."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
            with pytest.raises(NotAppended, match="broken"):
                journal.append(U1, entry(2))
        assert numbers(journal.entries(U1)) == [1]
        assert journal.append(U1, entry(3)) == 2


@pytest.mark.parametrize("left", [0, 1, 100])
def test_a_story_that_somebody_has_cut_goes_on(tmp_path: Path, left: int) -> None:
    """Where its whole records end."""
    path = tmp_path / "away" / "u1" / STORY
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        for number in (1, 2, 3):
            journal.append(U1, entry(number))
        os.truncate(path, left)
        assert journal.append(U1, entry(4)) == 4
        assert journal.append(U1, entry(5)) == 5
        found = journal.entries(U1)
    assert (numbers(found), found.unreadable) == ([4, 5], 0)


def test_threads_append_side_by_side(tmp_path: Path) -> None:
    """Every entry has its own position, and none is lost."""
    pods = [workflow_id(f"u{number}") for number in range(3)]
    with journal_in(tmp_path) as journal, ThreadPoolExecutor(8) as threads:
        for one in pods:
            journal.keep(one, start(one.rpartition("/")[2]), PLACE)
        told = {one: [threads.submit(journal.append, one, entry(number)) for number in range(40)] for one in pods}
        for one in pods:
            assert sorted(position.result() for position in told[one]) == list(range(1, 41))
            assert sorted(found.entry.key for found in journal.entries(one).entries) == sorted(
                entry(number).key for number in range(40)
            )


def test_a_story_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it entries are counted by kind, also by the next process."""
    monkeypatch.setattr(story, "LARGEST_STORY", 2000)
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        for number in range(1, 20):
            assert journal.append(U1, entry(number, kind=EntryKind.SIGNALLED)) == number
    with journal_in(tmp_path) as journal:
        (found,) = journal.read_all().kept
        assert journal.append(U1, entry(20, kind=EntryKind.FAILED)) == 20
        after = journal.entries(U1)
    stored = len(found.tail.entries)
    assert numbers(found.tail) == list(range(1, stored + 1))
    assert 0 < stored < 19
    assert found.tail.left_out == LeftOut(19, {"signalled": 19 - stored}, is_full=True)
    assert not found.is_complete
    assert after.left_out == LeftOut(20, {"signalled": 19 - stored, "failed": 1}, is_full=True)
    assert (tmp_path / "away" / "u1" / "story").stat().st_size <= 2000


def test_nothing_follows_the_first_entry_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is the beginning, without gaps."""
    monkeypatch.setattr(story, "LARGEST_STORY", 2000)
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
        journal.append(U1, entry(2, os.urandom(2000).hex()))
        journal.append(U1, entry(3))
        assert numbers(journal.entries(U1)) == [1]


def test_an_entry_may_be_too_large(tmp_path: Path) -> None:
    """It is counted, and the next one is stored."""
    with journal_in(tmp_path) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1, os.urandom(512 * 1024).hex()))
        journal.append(U1, entry(2))
        found = journal.entries(U1)
    assert (numbers(found), found.left_out) == ([2], LeftOut(1, {"completed": 1}))
    assert not kept_in(tmp_path)["u1"].is_complete


def test_a_story_follows_a_state(tmp_path: Path) -> None:
    """Without a state no entry could be recovered: the first one waits for it, and is refused if there is none."""
    with journal_in(tmp_path) as journal:
        with pytest.raises(NotAppended, match="no state"):
            journal.append(U1, entry(1))
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
        (found,) = JournalReader(tmp_path, keys_of(tmp_path)).kept()
        assert (found.start, numbers(found.tail)) == (start("u1"), [1])
