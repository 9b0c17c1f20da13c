"""Is a signal of a restarted process numbered above all earlier ones, whatever the clock shows?"""

import time
from pathlib import Path

import pytest

from worker.temporal.signal_numbers import LEAP, SignalNumbers, beginning, signal_numbers

DAY = 86_400_000


@pytest.mark.parametrize(
    ("now", "last", "begins"),
    [
        pytest.param(5 * DAY, 0, 5 * DAY, id="the-first-run"),
        pytest.param(5 * DAY, 4 * DAY, 5 * DAY, id="a-later-run"),
        pytest.param(3 * DAY, 4 * DAY, 4 * DAY + LEAP, id="a-clock-that-was-set-back"),
        pytest.param(4 * DAY, 4 * DAY, 4 * DAY + LEAP, id="two-runs-in-one-moment"),
    ],
)
def test_where_a_run_begins(now: int, last: int, begins: int) -> None:
    """Each row is the clock's milliseconds, and the start of the previous run."""
    assert beginning(now, last) == begins


def test_a_run_counts_on_from_one_that_began_in_the_future(tmp_path: Path) -> None:
    """And the next one from it; each process has numbers of its own."""
    ahead = time.time_ns() // 1_000_000 + DAY
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "poller.signals").write_text(f"{ahead}\n")
    runs = [signal_numbers(tmp_path / "state", "poller").next() for _ in range(2)]
    assert runs == [ahead + LEAP + 1, ahead + 2 * LEAP + 1]
    assert signal_numbers(tmp_path / "state", "worker").next() < ahead


@pytest.mark.parametrize("kept", ["", "none\n"])
def test_without_a_file_that_can_be_read_or_written_the_clock_decides(tmp_path: Path, kept: str) -> None:
    """It costs nothing but the safety."""
    if kept:
        (tmp_path / "poller.signals").write_text(kept)
    place = tmp_path if kept else tmp_path / "file" / "state"
    if not kept:
        (tmp_path / "file").touch()
    now = time.time_ns() // 1_000_000
    assert now < signal_numbers(place, "poller").next() <= now + 60_000


@pytest.mark.parametrize(
    ("newest", "first"),
    [
        pytest.param(0, 5 * DAY + 1, id="nothing-was-ever-sent"),
        pytest.param(4 * DAY, 5 * DAY + 1, id="the-clock-is-ahead"),
        pytest.param(6 * DAY, 6 * DAY + LEAP + 1, id="the-clock-was-set-back"),
    ],
)
def test_numbers_whose_file_is_lost_begin_above_what_temporal_knows(newest: int, first: int) -> None:
    """Once that was asked they are settled."""
    numbers = SignalNumbers(5 * DAY, unsettled=True)
    numbers.settle(newest)
    assert (numbers.next(), numbers.unsettled) == (first, False)


def test_only_a_start_without_a_file_is_unsettled(tmp_path: Path) -> None:
    """Also one whose file is damaged."""
    assert signal_numbers(tmp_path, "poller").unsettled
    assert not signal_numbers(tmp_path, "poller").unsettled
    (tmp_path / "poller.signals").write_text("rubbish")
    assert signal_numbers(tmp_path, "poller").unsettled
