"""Is the newest value of each key written, whatever happens to the others and to earlier values of it?"""

import threading
from collections.abc import Iterator

import pytest

from tests.patience import PATIENCE
from worker.daemon.troubles import Troubles
from worker.host import newest_writer
from worker.host.newest_writer import NewestWriter


class Disk:
    """Takes values; it can be stopped, and refuse keys."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []
        self.refused: dict[str, Exception] = {}
        self.free = threading.Event()
        self.free.set()
        self.busy = threading.Event()

    def write(self, key: str, value: str) -> None:
        """Write a value."""
        self.busy.set()
        self.free.wait(PATIENCE)
        if key in self.refused:
            raise self.refused[key]
        self.written.append((key, value))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Let what failed be tried again at once."""
    monkeypatch.setattr(newest_writer, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(newest_writer, "LONGEST_PAUSE", 0.01)
    disk = Disk()
    yield disk
    disk.free.set()


def joined(before: str, after: str) -> str:
    """Keep both."""
    return before + after


def test_values_that_come_during_a_write_become_one(disk: Disk) -> None:
    """The newest wins."""
    with NewestWriter("values", disk.write) as writer:
        disk.free.clear()
        writer.put("a", "1")
        assert disk.busy.wait(PATIENCE)
        for value in ("2", "3", "4"):
            writer.put("a", value)
        disk.free.set()
    assert disk.written == [("a", "1"), ("a", "4")]


def test_flush_waits_for_the_value_that_is_being_written(disk: Disk) -> None:
    """And for the one that waits."""
    with NewestWriter("values", disk.write, gather=10 * PATIENCE) as writer:
        disk.free.clear()
        writer.put("a", "1")
        assert not writer.flush("a", 0.0)
        disk.free.set()
        writer.put("a", "2")
        assert writer.flush("a", PATIENCE)
        assert disk.written[-1] == ("a", "2")
        assert writer.flush("unknown", 0.0)


def test_values_are_gathered_before_any_is_written(disk: Disk) -> None:
    """Until the writer is closed, at the latest."""
    with NewestWriter("values", disk.write, gather=10 * PATIENCE) as writer:
        for value in ("1", "2", "3"):
            writer.put("a", value)
            disk.busy.wait(0.01)  # time for the thread to write too early
    assert disk.written == [("a", "3")]


def test_a_value_that_failed_is_merged_into_the_newer_one(disk: Disk) -> None:
    """What it had to do is done, too, and first."""
    with NewestWriter("values", disk.write, merge=joined) as writer:
        disk.refused["a"] = OSError("full")
        writer.put("a", "1")
        assert not writer.flush("a", PATIENCE)
        writer.put("b", "x")
        writer.put("a", "2")
        assert not writer.flush("a", PATIENCE)
        writer.put("a", "3")
        del disk.refused["a"]
        while not writer.flush("a", PATIENCE):
            pass
    assert [one for one in disk.written if one[0] == "a"] == [("a", "123")]
    assert ("b", "x") in disk.written


def test_only_a_failure_of_the_disk_is_tried_again(disk: Disk) -> None:
    """A value that cannot be written at all is told, and does not end the thread."""
    troubles = Troubles()
    disk.refused["a"] = TypeError("odd")
    with NewestWriter("values", disk.write, troubles=troubles) as writer:
        writer.put("a", "1")
        assert not writer.flush("a", PATIENCE)
        writer.put("b", "1")
        assert writer.flush("b", PATIENCE)
    assert disk.written == [("b", "1")]
    assert troubles.failures()["values"][0] == 1
