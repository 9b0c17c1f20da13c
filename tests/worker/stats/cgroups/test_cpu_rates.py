"""Is the CPU rate computed from readings that are far enough apart, however often it is requested?"""

import pytest

from worker.stats.cgroups.cpu_rates import LONGEST, SHORTEST, CpuRates, Reading

SECOND = 10**9


def take(rates: CpuRates, *readings: tuple[float, int]) -> list[int | None]:
    """Take the readings of one cgroup in turn; returns the rate after each."""
    return [rates.take({"a": Reading(at, cpu)}).get("a") for at, cpu in readings]


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        pytest.param([(0, 0)], [None], id="one-reading-tells-nothing"),
        pytest.param([(0, 0), (10, 5 * SECOND)], [None, SECOND // 2], id="two-tell-what-was-used-between"),
        pytest.param([(0, 0), (1, SECOND), (2, SECOND)], [None, SECOND, SECOND // 2], id="the-first-two-may-be-close"),
        pytest.param(
            [(0, 0), (10, 10 * SECOND), (11, 10 * SECOND), (20, 10 * SECOND)],
            [None, SECOND, 10 * SECOND // 11, 0],
            id="who-asks-too-soon-is-told-of-longer",
        ),
        pytest.param([(0, 9), (10, 3), (20, 3 + SECOND)], [None, None, SECOND // 10], id="a-new-cgroup-of-that-name"),
        pytest.param([(0, 0), (LONGEST + 1, SECOND)], [None, None], id="the-past-is-not-told"),
        pytest.param([(5, 0), (5, 0)], [None, None], id="no-time-between"),
    ],
)
def test_rates(readings: list[tuple[float, int]], told: list[int | None]) -> None:
    """Nanocores."""
    assert take(CpuRates(), *readings) == told


def test_what_is_gone_is_forgotten() -> None:
    """A cgroup that is created again starts anew."""
    rates = CpuRates()
    rates.take({"a": Reading(0, 5), "b": Reading(0, 5)})
    rates.take({"b": Reading(SHORTEST, 5)})
    assert rates.take({"a": Reading(2 * SHORTEST, 50)}) == {}


def test_a_second_reading_is_wanted_when_the_last_is_old() -> None:
    """So that the first request gets a rate, too."""
    rates = CpuRates()
    assert rates.need_another(1000)
    rates.take({"a": Reading(1000, 0)})
    assert not rates.need_another(1001)
    assert rates.need_another(1001 + LONGEST)
