"""How long pods get at a shutdown of the machine: shutdownGracePeriod and the keys that belong to it.

`workflows/decide/shutdown/periods.py` checks them and says what they mean; here they are read.
"""

from collections.abc import Iterator

from worker.settings.kubelet.configuration import KubeletConfiguration
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.shutdown.periods import (
    BY_PRIORITY,
    CRITICAL,
    GATE,
    PERIOD,
    PRIORITY_GATE,
    Period,
    ShutdownConfig,
    faults,
    periods,
)


def shutdown_periods(kubelet: KubeletConfiguration, gates: FeatureGates) -> tuple[Period, ...]:
    """Return the periods of a configuration that `shutdown_breaches` has no objection to; empty: none is configured."""
    return periods(_stated(kubelet, gates))


def shutdown_breaches(kubelet: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    """List what is wrong, in the kubelet's words."""
    return faults(_stated(kubelet, gates))


def _stated(kubelet: KubeletConfiguration, gates: FeatureGates) -> ShutdownConfig:
    return ShutdownConfig(
        requested=kubelet[PERIOD],
        critical=kubelet[CRITICAL],
        by_priority=tuple(
            Period(one.get("priority", 0), one.get("shutdownGracePeriodSeconds", 0))
            for one in kubelet[BY_PRIORITY] or ()
        ),
        gate=gates.enabled(GATE),
        priority_gate=gates.enabled(PRIORITY_GATE),
    )
