"""How long each priority gets at a shutdown, and what is wrong with such a setting.

Asked by the settings (`worker/settings/shutdown.py`). Rules and words are the kubelet's (apis/config/validation/validation.go,
pkg/kubelet/nodeshutdown/nodeshutdown_manager.go migrateConfig).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from proto.kubernetes.go_duration import format_duration
from proto.kubernetes.priority import SYSTEM_CRITICAL_PRIORITY

PERIOD: Final = "shutdownGracePeriod"
CRITICAL: Final = "shutdownGracePeriodCriticalPods"
BY_PRIORITY: Final = "shutdownGracePeriodByPodPriority"
GATE: Final = "GracefulNodeShutdown"
PRIORITY_GATE: Final = "GracefulNodeShutdownBasedOnPodPriority"
DEFAULT_PRIORITY: Final = 0
_SECOND: Final = timedelta(seconds=1)
_NONE: Final = timedelta()


@dataclass(frozen=True, slots=True)
class Period:
    """The seconds of the pods from this priority up to the next one."""

    priority: int
    seconds: int


@dataclass(frozen=True, slots=True)
class ShutdownConfig:
    """The keys as they are written, and their gates."""

    requested: timedelta = _NONE
    critical: timedelta = _NONE
    by_priority: tuple[Period, ...] = ()
    gate: bool = True
    priority_gate: bool = True


def periods(config: ShutdownConfig) -> tuple[Period, ...]:
    """Return the periods from low to high priority; empty: the node does nothing at a shutdown."""
    if not config.gate:
        return ()
    found = config.by_priority if config.priority_gate else ()
    return tuple(sorted(found or _of_two_kinds(config), key=lambda one: one.priority))


def requested(found: Iterable[Period]) -> timedelta:
    """Return how long a shutdown is to be delayed."""
    return timedelta(seconds=sum(one.seconds for one in found))


def faults(config: ShutdownConfig) -> Iterator[str]:
    """List what is wrong, in the kubelet's order."""
    whole, critical = format_duration(config.requested), format_duration(config.critical)
    two_kinds = config.requested > _NONE or config.critical > _NONE
    if config.gate:
        if config.critical > config.requested:
            yield _invalid(f"{CRITICAL} {critical} must be <= {PERIOD} {whole}")
        for key, value, text in ((PERIOD, config.requested, whole), (CRITICAL, config.critical, critical)):
            if value < _NONE or _NONE < value < _SECOND:
                yield _invalid(f"{key} {text} must be either zero or otherwise >= 1 sec")
    elif two_kinds:
        yield _invalid(f"specifying {PERIOD} or {CRITICAL} requires feature gate {GATE}")
    if config.by_priority and config.priority_gate and two_kinds:
        yield _invalid(f"Cannot specify both {BY_PRIORITY} and {PERIOD} at the same time")
    if config.by_priority and not config.priority_gate:
        yield _invalid(f"Specifying {BY_PRIORITY} requires feature gate {PRIORITY_GATE}")


def _of_two_kinds(config: ShutdownConfig) -> tuple[Period, ...]:
    others = config.requested - config.critical
    if config.requested == _NONE or others < _NONE or config.critical < _NONE:
        return ()
    return Period(DEFAULT_PRIORITY, others // _SECOND), Period(SYSTEM_CRITICAL_PRIORITY, config.critical // _SECOND)


def _invalid(why: str) -> str:
    return f"invalid configuration: {why}"
