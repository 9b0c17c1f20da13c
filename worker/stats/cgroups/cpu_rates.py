"""How much cpu is in use just now: the difference of two readings, which somebody has to have taken (stats/cri_stats_provider.go).

The kubelet reads all the time. Here the readings are those of whoever asks: who asks again is told what was used since. For the
first to ask two are taken a second apart, so that nothing is read while nobody wants to know.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

SHORTEST: Final = 5.0
"""Seconds between two readings that replace each other: what is asked more often is told of these, and not of a moment."""
LONGEST: Final = 300.0
"""Readings that lie farther apart tell of the past."""


class Reading(NamedTuple):
    """Cpu time of one cgroup, in nanoseconds, at one time."""

    at: float
    cpu: int


class CpuRates:
    """The readings of one kind of question, by cgroup."""

    def __init__(self) -> None:
        self._before: dict[str, Reading] = {}
        self._last: dict[str, Reading] = {}

    def need_another(self, now: float) -> bool:
        """Say whether there is no reading yet that tells of the present."""
        newest = max((one.at for one in self._last.values()), default=0.0)
        return now - newest > LONGEST

    def take(self, readings: Mapping[str, Reading]) -> dict[str, int]:
        """Take what was read of all there is; answers nanocores by cgroup, where two readings are known."""
        before, last = {}, {}
        rates: dict[str, int] = {}
        for path, new in readings.items():
            old, older = self._last.get(path), self._before.get(path)
            if old is None or new.cpu < old.cpu:  # made anew meanwhile
                last[path] = new
                continue
            since = old if older is None or new.at - old.at >= SHORTEST else older
            if 0 < new.at - since.at <= LONGEST:
                rates[path] = int((new.cpu - since.cpu) / (new.at - since.at) + 0.5)
            if older is not None and new.at - old.at < SHORTEST:
                before[path], last[path] = older, old
            else:
                before[path], last[path] = old, new
        self._before, self._last = before, last
        return rates
