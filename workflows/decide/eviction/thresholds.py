"""The thresholds of a KubeletConfiguration, and what is wrong with them, in the kubelet's words.

Asked at the start of a node. The rules are pkg/kubelet/eviction/helpers.go ParseThresholdConfig; the defaults are those of
cmd/kubelet/app/server.go. The kubelet ends at the first fault that it meets in a map; here all are named, each with its key.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from proto.kubernetes.go_duration import parse_duration, why_no_duration
from proto.kubernetes.resources.quantity import ZERO, QuantityError, canonical_quantity, parse_quantity
from proto.temporal.eviction.thresholds import Amount, Signal, Threshold
from workflows.decide.eviction.amounts import PercentageError, parse_share

DEFAULT_HARD: Final[Mapping[str, str]] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
PODS: Final = "pods"
"""The value of enforceNodeAllocatable that limits the pods' cgroup."""
_NONE: Final = ("0%", "100%")
"""Shares that switch a threshold off."""
_MOMENT: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ThresholdConfig:
    """The keys of the KubeletConfiguration that thresholds are made of."""

    hard: Mapping[str, str] | None = None
    """evictionHard; None: not set, so the defaults apply."""
    soft: Mapping[str, str] = field(default_factory=dict)
    soft_grace: Mapping[str, str] = field(default_factory=dict)
    """evictionSoftGracePeriod."""
    minimum_reclaim: Mapping[str, str] = field(default_factory=dict)
    merge_defaults: bool = False
    """mergeDefaultEvictionSettings: the defaults apply to signals that evictionHard does not name."""
    enforced: tuple[str, ...] = (PODS,)
    """enforceNodeAllocatable."""


@dataclass(frozen=True, slots=True)
class ThresholdFault:
    """What is wrong with one statement."""

    key: str
    why: str
    """The kubelet's text."""


class ThresholdError(ValueError):
    """A statement is invalid; the message is the kubelet's."""


def parse_thresholds(config: ThresholdConfig) -> tuple[Threshold, ...]:
    """Parse thresholds without faults: hard ones, soft ones, then the one of the pods' cgroup; raises ThresholdError."""
    reclaims = {Signal(name): _reclaim(name, text) for name, text in config.minimum_reclaim.items()}
    graces = {Signal(name): _grace(name, text) for name, text in config.soft_grace.items()}
    hard = [one for name, text in hard_statements(config).items() if (one := _threshold(name, text))]
    soft = [one for name, text in config.soft.items() if (one := _threshold(name, text))]
    for one in soft:
        if one.signal not in graces:
            raise ThresholdError(_no_grace(one.signal))
    stated = [*hard, *(replace(one, grace=graces[one.signal]) for one in soft)]
    found = [replace(one, reclaim=reclaims.get(one.signal)) for one in stated]
    if PODS in config.enforced:
        found += [_of_the_pods(one) for one in found if one.signal is Signal.MEMORY and one.is_hard]
    return tuple(found)


def threshold_faults(config: ThresholdConfig) -> Iterator[ThresholdFault]:
    """List what is wrong, in the order in which the kubelet looks at the keys."""
    for key, statements, parse in (
        ("evictionHard", hard_statements(config), _threshold),
        ("evictionSoft", config.soft, _threshold),
        ("evictionSoftGracePeriod", config.soft_grace, _grace),
        ("evictionMinimumReclaim", config.minimum_reclaim, _reclaim),
    ):
        for name, text in statements.items():
            try:
                parse(name, text)
            except ThresholdError as error:
                yield ThresholdFault(key, str(error))
    for name, text in config.soft.items():
        if text not in _NONE and name not in config.soft_grace and _is_signal(name):
            yield ThresholdFault("evictionSoft", _no_grace(name))


def hard_statements(config: ThresholdConfig) -> Mapping[str, str]:
    """Return evictionHard with the defaults that apply."""
    if config.hard is None:
        return DEFAULT_HARD
    return {**DEFAULT_HARD, **config.hard} if config.merge_defaults else config.hard


def _of_the_pods(machine: Threshold) -> Threshold:
    """Return the threshold of the pods' cgroup, which is the machine's (addAllocatableThresholds)."""
    return Threshold(Signal.ALLOCATABLE_MEMORY, machine.least, reclaim=machine.reclaim)


def _threshold(name: str, text: str) -> Threshold | None:
    """Parse a threshold without its grace period; None for one that is switched off (parseThresholdStatement)."""
    signal = _signal(name)
    if text in _NONE:
        return None
    if text.endswith("%"):
        share = _share(text)
        if share < 0:
            raise ThresholdError(f"eviction percentage threshold {name} must be >= 0%: {text}")
        if share > 1:
            raise ThresholdError(f"eviction percentage threshold {name} must be <= 100%: {text}")
        return Threshold(signal, Amount(share=share))
    canonical = _quantity(text)
    if parse_quantity(canonical) <= ZERO:
        raise ThresholdError(f"eviction threshold {name} must be positive: {canonical}")
    return Threshold(signal, Amount(canonical))


def _grace(name: str, text: str) -> timedelta:
    """Parse a grace period (parseGracePeriods); one of nanoseconds is a microsecond, so that it stays soft."""
    _signal(name)
    if wrong := why_no_duration(text):
        raise ThresholdError(wrong)
    try:
        grace = parse_duration(text)
    except ValueError as error:
        raise ThresholdError(str(error)) from None
    if grace < timedelta():
        raise ThresholdError(f"invalid eviction grace period specified: {text}, must be a positive value")
    return grace or (_MOMENT if any(digit in text for digit in "123456789") else grace)


def _reclaim(name: str, text: str) -> Amount:
    """Parse a minimum reclaim (parseMinimumReclaims)."""
    _signal(name)
    if text.endswith("%"):
        share = _share(text)
        if share <= 0:
            raise ThresholdError(f"eviction percentage minimum reclaim {name} must be positive: {text}")
        return Amount(share=share)
    canonical = _quantity(text)
    if parse_quantity(canonical) < ZERO:
        raise ThresholdError(f"negative eviction minimum reclaim specified for {name}")
    return Amount(canonical)


def _signal(name: str) -> Signal:
    if not _is_signal(name):
        raise ThresholdError(f"unsupported eviction signal {name}")
    return Signal(name)


def _is_signal(name: str) -> bool:
    return name in Signal.__members__.values()


def _share(text: str) -> float:
    try:
        return parse_share(text)
    except PercentageError as error:
        raise ThresholdError(str(error)) from None


def _quantity(text: str) -> str:
    """Return a quantity in its canonical form; unlike in a manifest, it has no spaces around it."""
    try:
        canonical = canonical_quantity(text)
        return canonical_quantity(text.replace(" ", "?")) if text != text.strip() else canonical
    except QuantityError as error:
        raise ThresholdError(str(error)) from None


def _no_grace(name: str) -> str:
    return f"grace period must be specified for the soft eviction threshold {name}"
