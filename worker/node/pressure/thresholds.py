"""Evaluates eviction thresholds: which pressure conditions a node has.

Pure; used every ten seconds. The rules are the eviction manager's (pkg/kubelet/eviction/eviction_manager.go synchronize): a
soft threshold shows at once, but requires its minimum reclaim to clear only after its grace period. A condition stays for
evictionPressureTransitionPeriod after it was last met, so that it does not flap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from worker.settings.eviction import SIGNALS, Eviction, Threshold

HISTORY_PRESSURE: Final = "HistoryPressure"
"""Our own condition: the database of histories exceeds its limit (worker/host/temporal/history_limit.py)."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Available amount and capacity of a resource; bytes, inodes or process ids."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """What was observed so far."""

    held: frozenset[Threshold] = frozenset()
    """Thresholds met for longer than their grace period; they also need their minimum reclaim to clear."""
    first_seen: Mapping[Threshold, datetime] = field(default_factory=dict)
    last_seen: Mapping[str, datetime] = field(default_factory=dict)
    """By condition."""
    conditions: frozenset[str] = frozenset()
    """The conditions that are true."""


def evaluate(eviction: Eviction, observed: Mapping[str, Observation], before: Pressure, now: datetime) -> Pressure:
    """Return the pressure as of `now`; a signal that was not measured meets no threshold."""
    met = {one for one in eviction.thresholds if _is_met(one, observed)}
    met |= {one for one in before.held if _is_met(one, observed, reclaimed=True)}
    first = {one: before.first_seen.get(one, now) for one in met}
    last = {**before.last_seen, **{SIGNALS[one.signal]: now for one in met}}
    return Pressure(
        held=frozenset(one for one in met if now - first[one] >= one.grace),
        first_seen=first,
        last_seen=last,
        conditions=frozenset(kind for kind, at in last.items() if now - at < eviction.transition or at == now),
    )


def _is_met(threshold: Threshold, observed: Mapping[str, Observation], *, reclaimed: bool = False) -> bool:
    found = observed.get(threshold.signal)
    if found is None:
        return False
    least = threshold.least.of(found.capacity)
    return found.available < least + (threshold.reclaim.of(found.capacity) if reclaimed else 0)
