"""CPU usage rates: the difference of two readings (stats/cri_stats_provider.go).

The kubelet reads all the time. Here readings are taken on request, and a rate covers the time since the previous request. For
the first request two readings are taken a second apart. Nothing is read between requests.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

SHORTEST: Final = 5.0
"""Minimum seconds between readings that replace each other, so that frequent requests do not get rates over a moment."""
LONGEST: Final = 300.0
"""Readings farther apart do not describe current usage."""


class Reading(NamedTuple):
    """CPU time of one cgroup in nanoseconds, at one time."""

    at: float
    cpu: int


class CpuRates:
    """The last readings, by cgroup."""

    def __init__(self) -> None:
        self._before: dict[str, Reading] = {}
        self._last: dict[str, Reading] = {}

    def need_another(self, now: float) -> bool:
        """Report whether there is no recent reading yet."""
        newest = max((one.at for one in self._last.values()), default=0.0)
        return now - newest > LONGEST

    def take(self, readings: Mapping[str, Reading]) -> dict[str, int]:
        """Add the readings of all cgroups; returns nanocores by cgroup where two readings are known."""
        before, last = {}, {}
        rates: dict[str, int] = {}
        for path, new in readings.items():
            old, older = self._last.get(path), self._before.get(path)
            if old is None or new.cpu < old.cpu:  # the cgroup was created again
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
