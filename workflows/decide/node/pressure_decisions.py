"""What a node under pressure decides without a victim, in words: its conditions, a reclaim that was enough, nobody to evict.

Told to the node's workflow, so that its history has inputs, choice and reason. A decision with a victim is told by that pod's history.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from proto.temporal.eviction.readings import Observation, Observations
from proto.temporal.eviction.thresholds import EvictionPolicy, Signal, Threshold
from workflows.decide.eviction.amounts import amount_text, count_text, size_text
from workflows.decide.eviction.disks import Reclaim
from workflows.decide.eviction.pressure import met_thresholds
from workflows.decide.eviction.rounds import Facts, Starved
from workflows.decide.eviction.signals import CONDITIONS, SIGNALS


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision; those of the same kind are told together if they follow each other."""

    kind: str
    words: str


def conditions_changed(
    policy: EvictionPolicy, before: Collection[str], now: Collection[str], observed: Observations
) -> Iterator[Decision]:
    """Tell of the node's conditions that begin or end, with what was measured."""
    for condition in CONDITIONS:
        of_condition = [one for one in policy.thresholds if SIGNALS[one.signal].condition == condition]
        if condition in now and condition not in before:
            figures = _figures(met_thresholds(of_condition, observed), observed)
            yield Decision(f"{condition} begins", f"{condition} begins: {figures}")
        elif condition in before and condition not in now:
            figures = _figures(of_condition, observed)
            yield Decision(f"{condition} ends", f"{condition} ends, not observed for {policy.transition}: {figures}")


def reclaim_sufficed(starved: Starved, reclaims: Iterable[Reclaim], after: Observations) -> Decision:
    """Tell that no pod is evicted, because what was removed was enough."""
    what, threshold = " and ".join(reclaims), starved.threshold
    figures = f"before, {_figure(threshold, starved.found)}; now, {_figures([threshold], after)}"
    return Decision(
        f"reclaimed/{threshold.signal}",
        f"no pod is evicted for {starved.resource}: it was enough to {what}: {figures}",
    )


def nobody_to_evict(starved: Starved, facts: Facts, refused: Sequence[str]) -> Decision:
    """Tell that no pod can be evicted; `refused` are those that rejected it, with their reasons."""
    critical = sum(one.critical for one in facts.pods)
    who = f"of {len(facts.pods)} pods {critical} are critical" if facts.pods else "no pod is left that could be"
    said = "".join(f"; {one}" for one in refused)
    return Decision(
        f"nobody/{starved.threshold.signal}",
        f"no pod can be evicted for {starved.resource}: {who}{said}: {_figure(starved.threshold, starved.found)}",
    )


def _figures(thresholds: Iterable[Threshold], observed: Observations) -> str:
    found = [_figure(one, observed[one.signal]) for one in thresholds if one.signal in observed]
    return ", ".join(dict.fromkeys(found)) or "not measured"


def _figure(threshold: Threshold, found: Observation) -> str:
    """Write one measurement: `memory.available is 50Mi of 2Gi, threshold 100Mi`."""
    left, capacity = _amount(threshold.signal, found.available), _amount(threshold.signal, found.capacity)
    return f"{threshold.signal} is {left} of {capacity}, threshold {amount_text(threshold.least, found.capacity)}"


def _amount(signal: Signal, amount: int) -> str:
    return size_text(amount) if SIGNALS[signal].in_bytes else count_text(amount)
