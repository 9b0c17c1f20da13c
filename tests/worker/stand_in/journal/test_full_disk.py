"""Is a disk that takes no file told and tried again, and what is on it still whole?"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.mounts import MountFlag
from tests.patience import PATIENCE
from tests.worker.stand_in.journal.journals import (
    PLACE,
    SOON,
    WatchedTroubles,
    entry,
    journal_in,
    kept_in,
    numbers,
    start,
    workflow_id,
)
from worker.host import newest_writer
from worker.stand_in.journal.journal import STATES, STORIES, Journal
from worker.stand_in.journal.kept import NotAppended

U1, U3 = workflow_id("u1"), workflow_id("u3")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Mount a disk of 256 KiB, and let what failed be tried again at once."""
    monkeypatch.setattr(newest_writer, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(newest_writer, "LONGEST_PAUSE", 0.02)
    folder = tmp_path / "disk"
    folder.mkdir()
    mounts.mount("tmpfs", folder, "tmpfs", options=["size=256k"])
    yield folder
    mounts.unmount(folder)


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    path = disk / "filling"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return path


def room_for_one_more(journal: Journal, appended: list[int]) -> bool:
    """Append an entry: the last page of a file has room for some, also on a full disk."""
    with contextlib.suppress(NotAppended):
        appended.append(journal.append(U1, entry(len(appended) + 1)))
        return True
    return False


def test_a_full_disk(disk: Path) -> None:
    """Appending fails and says so; states and tombstones wait. Once there is room, all is as if there had always been."""
    troubles = WatchedTroubles()
    with journal_in(disk, troubles=troubles) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.keep(U3, start("u3"), PLACE)
        position = journal.append(U1, entry(1))
        assert all(journal.flush(one, SOON) for one in (U1, U3))
        filling, appended = fill(disk), [position]
        while room_for_one_more(journal, appended):
            assert len(appended) < 50, "a page of 4 KiB"
        with pytest.raises(NotAppended, match=r"only a part|No space left"):
            journal.append(U1, entry(100))
        assert [line.partition(":")[0] for line in troubles.lines()] == [STORIES]
        assert numbers(journal.entries(U1)) == appended
        troubles.told.clear()
        journal.keep(U1, start("u1", restarts=1, value=os.urandom(5000).hex()), PLACE)
        journal.keep(U1, start("u1", restarts=2), PLACE)
        journal.forget(U3)
        assert not journal.flush(U1, SOON)
        assert troubles.told.wait(PATIENCE)
        assert STATES in {line.partition(":")[0] for line in troubles.lines()}
        troubles.over.clear()
        filling.unlink()
        assert troubles.over.wait(PATIENCE)
        assert all(journal.flush(one, SOON) for one in (U1, U3))
        assert journal.append(U1, entry(200)) == appended[-1] + 1
        assert troubles.lines() == ()
    found = kept_in(disk)
    assert list(found) == ["u1"]
    assert (found["u1"].start, found["u1"].tail.unreadable) == (start("u1", restarts=2), 0)
    assert numbers(found["u1"].tail) == [*appended, appended[-1] + 1]


def test_a_read_only_disk(disk: Path) -> None:
    """As a full one; what is there is read."""
    with journal_in(disk) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
    mounts.mount("", disk, flags=MountFlag.REMOUNT | MountFlag.READ_ONLY)
    troubles = WatchedTroubles()
    with journal_in(disk, troubles=troubles) as journal:
        (kept,) = journal.read_all().kept
        assert (kept.start, numbers(kept.tail)) == (start("u1"), [1])
        with pytest.raises(NotAppended, match="Read-only"):
            journal.append(U1, entry(2))
        journal.keep(U1, start("u1", restarts=1), PLACE)
        assert not journal.flush(U1, SOON)
        assert numbers(journal.entries(U1)) == [1]
        mounts.mount("", disk, flags=MountFlag.REMOUNT)
        assert troubles.over.wait(PATIENCE)
        assert journal.append(U1, entry(2)) == 2
    assert kept_in(disk)["u1"].start == start("u1", restarts=1)


def test_a_burial_waits_before_a_new_life(disk: Path) -> None:
    """A pod that lives again while its burial waits for room: the old story is not told as the new one's."""
    troubles = WatchedTroubles()
    with journal_in(disk, troubles=troubles) as journal:
        journal.keep(U1, start("u1"), PLACE)
        journal.append(U1, entry(1))
        assert journal.flush(U1, SOON)
        mounts.mount("", disk, flags=MountFlag.REMOUNT | MountFlag.READ_ONLY)
        journal.forget(U1)
        assert not journal.flush(U1, SOON)
        journal.keep(U1, start("u1", restarts=1), PLACE)
        assert not journal.flush(U1, SOON)
        mounts.mount("", disk, flags=MountFlag.REMOUNT)
        assert troubles.over.wait(PATIENCE)
        assert journal.flush(U1, SOON)
        assert journal.tombstone(U1) is None
    found = kept_in(disk)["u1"]
    assert (found.start, numbers(found.tail)) == (start("u1", restarts=1), [])
