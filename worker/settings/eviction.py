"""The eviction thresholds: evictionHard, evictionSoft and the keys that belong to them.

Parsed as by the kubelet (pkg/kubelet/eviction/helpers.go ParseThresholdConfig, defaults from cmd/kubelet/app/options).
They define what is reserved from pods and which conditions the node shows; no pod is evicted for them yet, and a
warning says so.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from proto.kubernetes.go_duration import parse_duration
from proto.kubernetes.resources.quantity import ZERO, Quantity, QuantityError, parse_quantity
from worker.settings.kubelet.configuration import KubeletConfiguration

DEFAULT_HARD: Final[Mapping[str, str]] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
MEMORY: Final = "memory.available"
NODE_FS: Final = "nodefs.available"
SIGNALS: Final[Mapping[str, str]] = {
    MEMORY: "MemoryPressure",
    "allocatableMemory.available": "MemoryPressure",
    NODE_FS: "DiskPressure",
    "nodefs.inodesFree": "DiskPressure",
    "imagefs.available": "DiskPressure",
    "imagefs.inodesFree": "DiskPressure",
    "containerfs.available": "DiskPressure",
    "containerfs.inodesFree": "DiskPressure",
    "pid.available": "PIDPressure",
}
"""Signal -> the node condition it sets. containerfs is the same disk as nodefs or imagefs, and follows that one's."""
_UNMEASURED: Final = ("allocatableMemory.available", "containerfs.available", "containerfs.inodesFree")
_MAPS: Final = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")
_ALL_KEYS: Final = (*_MAPS, "evictionSoftGracePeriod")


@dataclass(frozen=True, slots=True)
class Amount:
    """An absolute quantity, or a share of the capacity."""

    quantity: Quantity = ZERO
    share: float = 0.0

    def of(self, capacity: int) -> int:
        """Return the amount of a capacity, in its units."""
        return int(capacity * self.share) if self.share else self.quantity.value


@dataclass(frozen=True, slots=True)
class Threshold:
    """The node is under pressure while less than `least` of a signal is available."""

    signal: str
    least: Amount
    grace: timedelta = timedelta()
    """Zero for a hard threshold."""
    reclaim: Amount = Amount()
    """The amount that must be available in addition before pressure ends."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """All thresholds of a node."""

    thresholds: tuple[Threshold, ...] = ()
    transition: timedelta = timedelta(minutes=5)
    """How long a condition is shown after it was last observed."""

    def reserved(self, memory: int, storage: int) -> tuple[int, int]:
        """Return the bytes of memory and storage that hard thresholds reserve (cm/helpers.go hardEvictionReservation)."""
        hard = {one.signal: one.least for one in self.thresholds if not one.grace}
        return hard.get(MEMORY, Amount()).of(memory), hard.get(NODE_FS, Amount()).of(storage)


def eviction(kubelet: KubeletConfiguration) -> Eviction:
    """Parse the thresholds of a configuration that `eviction_breaches` has validated."""
    reclaims = {signal: _amount(text) or Amount() for signal, text in (kubelet["evictionMinimumReclaim"] or {}).items()}
    graces = {signal: parse_duration(text) for signal, text in (kubelet["evictionSoftGracePeriod"] or {}).items()}
    found = [
        Threshold(
            signal, least, graces.get(signal, timedelta()) if soft else timedelta(), reclaims.get(signal, Amount())
        )
        for soft, statements in ((False, _hard(kubelet)), (True, kubelet["evictionSoft"] or {}))
        for signal, text in statements.items()
        if (least := _amount(text)) is not None and signal not in _UNMEASURED
    ]
    return Eviction(tuple(found), kubelet["evictionPressureTransitionPeriod"])


def eviction_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List the invalid thresholds."""
    for key in _ALL_KEYS:
        for signal, text in (kubelet[key] or {}).items():
            if signal not in SIGNALS:
                yield f"{key}: {signal!r}, but a signal is {', '.join(SIGNALS)}"
            elif wrong := _why_no_grace(text) if key == "evictionSoftGracePeriod" else _why_no_amount(key, text):
                yield f"{key}: {signal}: {text!r}: {wrong}"
    for signal in kubelet["evictionSoft"] or {}:
        if signal not in (kubelet["evictionSoftGracePeriod"] or {}):
            yield f"evictionSoft: {signal}: evictionSoftGracePeriod must say for how long"


def eviction_warnings(kubelet: KubeletConfiguration) -> Iterator[str]:
    """Say which thresholds have no effect."""
    if said := [key for key in ("evictionHard", "evictionSoft") if kubelet[key]]:
        yield f"{', '.join(said)}: reserved from pods and, in a cluster, shown as the node's conditions; tempolet does not evict pods for them yet"
    for key in _MAPS:
        for signal in kubelet[key] or {}:
            if signal in _UNMEASURED:
                yield f"{key}: {signal}: ignored, {'no cgroup holds all pods to it' if 'Memory' in signal else 'the disk of nodefs or imagefs counts'}"


def _hard(kubelet: KubeletConfiguration) -> Mapping[str, str]:
    said: Mapping[str, str] | None = kubelet["evictionHard"]
    if said is None:
        return DEFAULT_HARD
    return {**DEFAULT_HARD, **said} if kubelet["mergeDefaultEvictionSettings"] else said


def _amount(text: str) -> Amount | None:
    """Parse a threshold; None for 0% or 100%."""
    if text in {"0%", "100%"}:
        return None
    return Amount(share=_share(text)) if text.endswith("%") else Amount(parse_quantity(text))


def _share(text: str) -> float:
    """Parse a percentage in the kubelet's precision, so that both reserve the same number of bytes."""
    return _float32(_float32(float(text.rstrip("%"))) / 100)


def _float32(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def _why_no_amount(key: str, text: str) -> str:
    if text.endswith("%"):
        try:
            share = _share(text)
        except (ValueError, OverflowError):
            return "no percentage"
        return "" if 0 <= share <= 1 else "a percentage is 0% to 100%"
    try:
        amount = parse_quantity(text)
    except QuantityError as error:
        return str(error)
    if amount < ZERO or (not amount and key != "evictionMinimumReclaim"):
        return "it must be positive"
    return ""


def _why_no_grace(text: str) -> str:
    try:
        grace = parse_duration(text)
    except ValueError as error:
        return str(error)
    return "it must not be negative" if grace < timedelta() else ""
