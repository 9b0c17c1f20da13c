"""Memory settings besides limits: memorySwap, singleProcessOOMKill, failSwapOn, and MemoryQoS.

The rules are the kubelet's (apis/config/validation/validation.go and validation_linux.go). Unlike the kubelet, whose
failSwapOn is true by default, a node with swap is refused only if a file says so: without swapBehavior no container
gets any swap anyway, as far as the kernel can enforce it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from worker.settings.kubelet.feature_gates import MEMORY_QOS_GATE, FeatureGates

LIMITED_SWAP: Final = "LimitedSwap"
_BEHAVIOURS: Final = ("", "NoSwap", LIMITED_SWAP)
_TIERED: Final = "TieredReservation"
_POLICIES: Final = ("None", _TIERED)
_SWAPS: Final = Path("/proc/swaps")


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The parsed keys."""

    limited_swap: bool = False
    single_process_oom_kill: bool = False
    """Only cgroup v2 can kill a whole container."""
    throttling_factor: float = 0.9
    tiered: bool = False


DEFAULT_MEMORY: Final = MemorySettings()


def memory_settings(kubelet: KubeletConfiguration) -> MemorySettings:
    """Read the validated keys."""
    return MemorySettings(
        limited_swap=kubelet["memorySwap.swapBehavior"] == LIMITED_SWAP,
        single_process_oom_kill=bool(kubelet["singleProcessOOMKill"]),
        throttling_factor=kubelet["memoryThrottlingFactor"],
        tiered=kubelet["memoryReservationPolicy"] == _TIERED,
    )


def memory_breaches(kubelet: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    """List the values that are out of bounds."""
    if (behaviour := kubelet["memorySwap.swapBehavior"] or "") not in _BEHAVIOURS:
        yield f"memorySwap.swapBehavior: {behaviour!r}, but it is NoSwap or LimitedSwap"
    if not 0 < (factor := kubelet["memoryThrottlingFactor"]) <= 1:
        yield f"memoryThrottlingFactor: {factor}, but it must be above 0 and at most 1"
    policy = kubelet["memoryReservationPolicy"]
    if policy not in _POLICIES:
        yield f"memoryReservationPolicy: {policy!r}, but it is {' or '.join(_POLICIES)}"
    elif policy == _TIERED and not gates.enabled(MEMORY_QOS_GATE):
        yield f"memoryReservationPolicy: {policy} needs the feature gate {MEMORY_QOS_GATE}, which is off"


def refuse_what_this_node_has_not(kubelet: KubeletConfiguration, *, cgroup_v2: bool, swaps: Path = _SWAPS) -> None:
    """Refuse settings that this machine does not support; raises ConfigurationRefused."""
    if kubelet["singleProcessOOMKill"] is False and not cgroup_v2:
        raise ConfigurationRefused(
            "singleProcessOOMKill: false, and this node has cgroup v1, which kills one process at a time; remove the key"
        )
    if "failSwapOn" in kubelet.said and kubelet["failSwapOn"] and len(swaps.read_text().splitlines()) > 1:
        raise ConfigurationRefused(
            "failSwapOn: true, and swap is on on this node (/proc/swaps); run swapoff -a, or set it to false"
        )
