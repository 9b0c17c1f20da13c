"""How often something is recorded that a pod or its owner can repeat at will: at first each time, then at growing intervals.

Used for what would otherwise fill a history: verdicts of a readiness probe that flaps, edits of one pod. Pure. However it
is repeated, there are about 26 records and one more for every five minutes: some 315 a day.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 20
"""So many records wait for nothing."""
FIRST_GAP: Final = 10.0
"""Seconds between the last of these and the next; each further record doubles the gap."""
FORGOTTEN_AFTER: Final = 300.0
"""Seconds after which one record no longer counts."""
_KEPT: Final = 4096
"""Names that are remembered: more than a node has containers."""


@dataclass(slots=True)
class RecentRecords:
    """What was recorded lately."""

    count: float = 0.0
    """After the last record; it falls by one every five minutes."""
    at: float = 0.0
    """When the last record was made, in seconds since the epoch."""

    def due_at(self, now: float) -> float:
        """Return the earliest time of the next record; a clock that was set back does not extend the gap."""
        extra = round(self.count) - AT_ONCE
        return now if extra < 0 else min(self.at, now) + FIRST_GAP * 2**extra

    def add(self, now: float) -> None:
        """Count a record that is made now."""
        forgotten = max(0.0, now - self.at) / FORGOTTEN_AFTER
        self.count, self.at = max(0.0, self.count - forgotten) + 1, now


class RecentRecordsByName:
    """The recent records of many; a name that has none for long is forgotten."""

    def __init__(self) -> None:
        self._by_name: dict[Hashable, RecentRecords] = {}

    def of(self, name: Hashable) -> RecentRecords:
        """Return those of one name, created if there are none."""
        found = self._by_name.pop(name, None) or RecentRecords()
        self._by_name[name] = found  # the latest is the last
        if len(self._by_name) > _KEPT:
            del self._by_name[next(iter(self._by_name))]
        return found
