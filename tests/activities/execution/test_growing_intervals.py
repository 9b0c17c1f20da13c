"""When is something recorded that is repeated for ever? A few times at once, then at growing intervals, some 315 times a day."""

from collections.abc import Iterator

import pytest

from activities.execution.growing_intervals import AT_ONCE, RecentRecords, RecentRecordsByName

DAY = 86_400
NOON = 1_800_000_000.0


def recorded(changes: Iterator[float]) -> list[float]:
    """Return the times of the records, given the times of changes: each waits until it is due, and then stands for all."""
    records, times, waiting = RecentRecords(), list[float](), False
    for now in changes:
        waiting = True
        if waiting and records.due_at(NOON + now) <= NOON + now:
            records.add(NOON + now)
            times.append(now)
            waiting = False
    return times


def each(seconds: float, until: float = DAY) -> Iterator[float]:
    """Change at a fixed interval."""
    return (one * seconds for one in range(int(until / seconds)))


def test_the_first_ones_are_recorded_at_once_then_the_gaps_grow() -> None:
    """At one change a second."""
    times = recorded(each(1, until=2000))
    assert times[:AT_ONCE] == [float(one) for one in range(AT_ONCE)]
    gaps = [later - earlier for earlier, later in zip(times[AT_ONCE - 1 :], times[AT_ONCE:], strict=False)]
    assert gaps[:6] == [10, 20, 40, 80, 80, 160]
    assert max(gaps) == 320


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        pytest.param(list(each(1)), 320, id="each-second"),
        pytest.param(list(each(7)), 320, id="each-seven-seconds"),
        pytest.param([t for t in each(1) if t % 900 < 20], 320, id="twenty-in-a-row-then-quiet-for-a-quarter"),
        pytest.param([t for t in each(1) if t % 6000 < 60], 320, id="rows-just-when-all-are-forgotten"),
        pytest.param(list(each(301)), 288, id="slower-than-one-is-forgotten"),
    ],
)
def test_a_day_has_a_limit(changes: list[float], most: int) -> None:
    """However the changes are spread."""
    assert len(recorded(iter(changes))) <= most


def test_what_seldom_changes_is_always_recorded() -> None:
    """A change each ten minutes, and twenty after a quiet time, never wait."""
    assert recorded(each(600)) == list(each(600))
    assert recorded(iter([0.0, *(7000.0 + one for one in range(19))])) == [0.0, *(7000.0 + one for one in range(19))]


def test_a_clock_that_is_set_back_extends_no_gap() -> None:
    """The wait is counted from the new time, and nothing is forgotten by it."""
    records = RecentRecords()
    for _ in range(AT_ONCE + 3):
        records.add(NOON)
    assert records.due_at(NOON - DAY) == NOON - DAY + 80
    records.add(NOON - DAY)
    assert records.count == AT_ONCE + 4


def test_names_are_apart_and_only_so_many_are_remembered() -> None:
    """The one that was used longest ago is forgotten."""
    names = RecentRecordsByName()
    names.of("web").add(NOON)
    assert names.of("web").count == 1
    assert names.of("db").count == 0
    for one in range(5000):
        names.of(one)
    assert names.of("web").count == 0
