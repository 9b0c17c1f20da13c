"""Which thresholds are met and since when, which conditions the node shows, and what has to be acted on.

The first half of a round (pkg/kubelet/eviction/eviction_manager.go synchronize). A threshold that has been met for its grace
period is held until its minimum reclaim is available, too. A condition stays for the transition period after it was last
observed, so that it does not flap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from proto.kubernetes.resources.quantity import NANO
from proto.temporal.eviction.pressure import MetThreshold, Pressure
from proto.temporal.eviction.readings import Observation, Observations
from proto.temporal.eviction.thresholds import Signal, Threshold
from workflows.decide.eviction.amounts import amount_of
from workflows.decide.eviction.signals import CONDITIONS, SIGNALS, by_urgency


@dataclass(frozen=True, slots=True)
class Judged:
    """The pressure as of now, and the thresholds to act on, the most urgent one first."""

    pressure: Pressure
    due: tuple[Threshold, ...]


def judge(
    thresholds: Iterable[Threshold], observed: Observations, before: Pressure, *, transition: timedelta, now: datetime
) -> Judged:
    """Return the pressure under which the node is now."""
    met = met_thresholds(thresholds, observed)
    held = (one.threshold for one in before.met if one.held)
    met += [one for one in met_thresholds(held, observed, reclaimed=True) if not _has(met, one)]
    since = {one.threshold: one.since for one in before.met}
    found = tuple(_met(one, since.get(one, now), now) for one in met)
    last = {**before.last_observed, **{SIGNALS[one.signal].condition: now for one in met}}
    pressure = Pressure(
        met=found,
        last_observed=last,
        conditions=tuple(kind for kind in CONDITIONS if kind in last and now - last[kind] < transition),
        measured_at={signal: one.at for signal, one in observed.items() if one.at},
    )
    held_now = (one.threshold for one in found if one.held)
    due = [one for one in held_now if _is_new(one.signal, observed, before.measured_at)]
    return Judged(pressure, tuple(sorted(due, key=by_urgency)))


def met_thresholds(
    thresholds: Iterable[Threshold], observed: Observations, *, reclaimed: bool = False
) -> list[Threshold]:
    """Return the thresholds that are met whatever their grace period; with `reclaimed` less than the minimum reclaim is left."""
    return [
        one for one in thresholds if one.signal in observed and _is_met(one, observed[one.signal], reclaimed=reclaimed)
    ]


def next_due(pressure: Pressure) -> datetime | None:
    """Return when the next grace period is over, so that a measurer knows when to report without a change."""
    return min((one.since + one.threshold.grace for one in pressure.met if not one.held), default=None)


def _is_met(threshold: Threshold, found: Observation, *, reclaimed: bool) -> bool:
    least = amount_of(threshold.least, found.capacity)
    if reclaimed:
        least += amount_of(threshold.reclaim, found.capacity)
    return least.nanos > found.available * NANO


def _met(threshold: Threshold, since: datetime, now: datetime) -> MetThreshold:
    return MetThreshold(threshold, since, held=now - since >= threshold.grace)


def _has(thresholds: Iterable[Threshold], wanted: Threshold) -> bool:
    """Report whether one is there, whatever its minimum reclaim (hasThreshold)."""
    return any((one.signal, one.least, one.grace) == (wanted.signal, wanted.least, wanted.grace) for one in thresholds)


def _is_new(signal: Signal, observed: Observations, measured_at: Mapping[Signal, datetime]) -> bool:
    """Report whether a signal was measured since the round before: no pod is evicted twice for one measurement."""
    at, last = observed[signal].at, measured_at.get(signal)
    return at is None or last is None or at > last
