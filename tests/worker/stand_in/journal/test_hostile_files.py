"""Does a file that is damaged, foreign or dangerous leave out its pod alone, and is it written anew when there is something to write?"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worker.stand_in.journal.journals import (
    PLACE,
    SOON,
    entry,
    journal_in,
    kept_in,
    keys_of,
    numbers,
    start,
    workflow_id,
)
from worker.stand_in.journal.frames import frame, scan
from worker.stand_in.journal.reading import JournalReader
from worker.stand_in.journal.tombstones import FILE, LARGEST_FILE
from worker.temporal.codec import PayloadCipher

U1, U2 = workflow_id("u1"), workflow_id("u2")
OUTSIDE = b"somebody else's"


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Keep two pods, each with a story of three entries, and a tombstone."""
    folder = tmp_path / "state"
    folder.mkdir()
    with journal_in(folder) as journal:
        for one in (U1, U2):
            journal.keep(one, start(one.rpartition("/")[2]), PLACE)
            for number in (1, 2, 3):
                journal.append(one, entry(number))
        journal.forget(workflow_id("gone"))
    (tmp_path / "outside").write_bytes(OUTSIDE)
    return folder


def as_link(path: Path) -> None:
    """A link to a file outside."""
    path.unlink()
    path.symlink_to(path.parents[3] / "outside")


def as_fifo(path: Path) -> None:
    """A FIFO, which blocks who opens it to read."""
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    """An empty folder."""
    path.unlink()
    path.mkdir()


def of_another(path: Path) -> None:
    """A file of another user."""
    os.chown(path, 1234, 1234)


def writable(path: Path) -> None:
    """A file that others may write."""
    path.chmod(0o622)


def oversized(path: Path) -> None:
    """More than was ever written, in a sparse file."""
    os.truncate(path, LARGEST_FILE + 1)


def empty(path: Path) -> None:
    """No byte, as a crash may leave it."""
    os.truncate(path, 0)


def rubbish(path: Path) -> None:
    """Bytes of no meaning."""
    path.write_bytes(os.urandom(3000))


def of_the_other_pod(path: Path) -> None:
    """The same file of another pod, which is sealed with the same key."""
    shutil.copy(path.parents[1] / "u2" / path.name, path)


HOSTILE = [as_link, as_fifo, as_folder, of_another, writable, oversized, empty, rubbish, of_the_other_pod]


@pytest.mark.parametrize("spoil", HOSTILE)
def test_a_spoiled_state_leaves_out_its_pod(state_dir: Path, spoil: Callable[[Path], None]) -> None:
    """With a log line; the next decision writes it anew."""
    spoil(state_dir / "away" / "u1" / "state")
    with structlog.testing.capture_logs() as logs:
        assert list(kept_in(state_dir)) == ["u2"]
    assert [one["path"] for one in logs if one["log_level"] == "warning"] == [str(state_dir / "away" / "u1")]
    if spoil is not as_folder:
        with journal_in(state_dir) as journal:
            assert journal.read_all().unreadable == ("u1",)
            journal.keep(U1, start("u1", restarts=1), PLACE)
            assert journal.flush(U1, SOON)
        assert kept_in(state_dir)["u1"].start == start("u1", restarts=1)
    assert (state_dir.parent / "outside").read_bytes() == OUTSIDE


@pytest.mark.parametrize("spoil", HOSTILE)
def test_a_spoiled_story_leaves_out_its_entries(state_dir: Path, spoil: Callable[[Path], None]) -> None:
    """The pod stays, and what is appended afterwards is read."""
    spoil(state_dir / "away" / "u1" / "story")
    kept = kept_in(state_dir)
    assert (numbers(kept["u1"].tail), numbers(kept["u2"].tail)) == ([], [1, 2, 3])
    assert kept["u1"].is_complete == (spoil in (empty, rubbish)), "a file without a whole record is one that was begun"
    if spoil is not as_folder:
        with journal_in(state_dir) as journal:
            journal.read_all()
            position = journal.append(U1, entry(9))
        assert numbers(kept_in(state_dir)["u1"].tail) == [position]
    assert (state_dir.parent / "outside").read_bytes() == OUTSIDE


@pytest.mark.parametrize("spoil", [one for one in HOSTILE if one is not of_the_other_pod])
def test_a_spoiled_record_of_pods_that_are_gone_is_left_out(state_dir: Path, spoil: Callable[[Path], None]) -> None:
    """The pods stay."""
    path = state_dir / "away" / FILE
    path.rename(state_dir / "away" / "u1" / FILE)  # so that a link to ../../../outside leads outside from both
    spoil(state_dir / "away" / "u1" / FILE)
    (state_dir / "away" / "u1" / FILE).rename(path)
    with journal_in(state_dir) as journal:
        recovered = journal.read_all()
    assert (len(recovered.kept), recovered.gone) == (2, {})
    assert (state_dir.parent / "outside").read_bytes() == OUTSIDE


def made(path: Path) -> Path:
    """Make a folder."""
    path.mkdir(mode=0o700)
    return path


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.symlink_to(path.with_name("u2")), id="a-link"),
        pytest.param(lambda path: path.write_bytes(b"x"), id="a-file"),
        pytest.param(lambda path: of_another(made(path)), id="of-another-user"),
        pytest.param(lambda path: made(path).chmod(0o777), id="writable-by-others"),
        pytest.param(made, id="empty"),
    ],
)
def test_a_spoiled_folder_leaves_out_its_pod(state_dir: Path, spoil: Callable[[Path], None]) -> None:
    """The others are read."""
    shutil.rmtree(state_dir / "away" / "u1")
    spoil(state_dir / "away" / "u1")
    with journal_in(state_dir) as journal:
        recovered = journal.read_all()
        assert ([one.workflow_id for one in recovered.kept], recovered.unreadable) == ([U2], ("u1",))


@pytest.mark.parametrize("spoil", [as_link, of_another, lambda path: path.chmod(0o777)])
def test_a_spoiled_journal_is_an_empty_one(state_dir: Path, spoil: Callable[[Path], None]) -> None:
    """The worker starts."""
    if spoil is as_link:
        (state_dir / "away").rename(state_dir / "elsewhere")
        (state_dir / "away").symlink_to(state_dir / "elsewhere")
    else:
        spoil(state_dir / "away")
    assert kept_in(state_dir) == {}
    assert JournalReader(state_dir, keys_of(state_dir)).kept() == ()


def test_a_record_of_another_pod_is_not_an_entry(state_dir: Path) -> None:
    """Each is sealed for its pod."""
    away = state_dir / "away"
    (away / "u1" / "story").write_bytes((away / "u2" / "story").read_bytes())
    with structlog.testing.capture_logs() as logs:
        found = kept_in(state_dir)["u1"]
    assert (numbers(found.tail), found.tail.unreadable, found.is_complete) == ([], 3, False)
    assert any(one.get("workflow") == U1 and one.get("number") == 3 for one in logs)


def test_an_entry_at_another_position_is_none(state_dir: Path) -> None:
    """An old deletion, say, must not happen again."""
    path = state_dir / "away" / "u1" / "story"
    first = scan(path.read_bytes()).records[0]
    with path.open("ab") as file:
        file.write(frame(9, first.sealed))
    found = kept_in(state_dir)["u1"].tail
    assert (numbers(found), found.unreadable) == ([1, 2, 3], 1)


def test_nothing_of_a_history_opens_as_a_file(state_dir: Path) -> None:
    """Whoever reads Temporal's database has payloads of the same pod, sealed with the same key."""
    path = state_dir / "away" / "u1" / "state"
    with journal_in(state_dir) as journal:
        payload = journal._sealing.plain(start("u1"))
    path.write_bytes(PayloadCipher(keys_of(state_dir)).encrypt(payload, "tempolet", U1).SerializeToString())
    assert list(kept_in(state_dir)) == ["u2"]
    shutil.copy(state_dir / "away" / FILE, path)
    assert list(kept_in(state_dir)) == ["u2"]


def test_without_its_key_a_pod_is_left_out_and_its_files_stay(state_dir: Path) -> None:
    """The operator can put the key back."""
    keys = (state_dir / "keys").read_text()
    (state_dir / "keys").write_text("")
    (state_dir / "keys").unlink()
    (state_dir / "keys.ids").unlink(missing_ok=True)
    with journal_in(state_dir) as journal:
        assert set(journal.read_all().unreadable) == {"u1", "u2"}
    (state_dir / "keys").write_text(keys)
    assert set(kept_in(state_dir)) == {"u1", "u2"}


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_no_change_of_a_byte_is_read_as_something_else(state_dir: Path, data: st.DataObject) -> None:
    """What is read is what was written, or nothing."""
    before = kept_in(state_dir)
    path = state_dir / "away" / "u1" / data.draw(st.sampled_from(["state", "story"]))
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(changed)
    try:
        after = kept_in(state_dir)
    finally:
        path.write_bytes(content)
    assert after["u2"] == before["u2"]
    if "u1" in after:
        assert after["u1"].start == before["u1"].start
        assert set(after["u1"].tail.entries) <= set(before["u1"].tail.entries)
