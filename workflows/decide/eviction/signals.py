"""**The table of eviction signals**: condition, starved resource, and how an observation is written.

The pairs are those of pkg/kubelet/eviction/helpers.go init. A signal's position in the table is its rank among met
thresholds (`by_urgency`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proto.temporal.eviction.thresholds import Signal, Threshold

MEMORY_PRESSURE: Final = "MemoryPressure"
DISK_PRESSURE: Final = "DiskPressure"
PID_PRESSURE: Final = "PIDPressure"
CONDITIONS: Final = (MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE)
"""In the order in which messages name them; the kubelet's order changes from message to message."""

MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
INODES: Final = "inodes"
PIDS: Final = "pids"


@dataclass(frozen=True, slots=True)
class SignalRow:
    """What one signal stands for."""

    condition: str
    resource: str
    in_bytes: bool = True
    """An observation is written with a binary suffix."""


SIGNALS: Final[Mapping[Signal, SignalRow]] = {
    Signal.MEMORY: SignalRow(MEMORY_PRESSURE, MEMORY),
    Signal.ALLOCATABLE_MEMORY: SignalRow(MEMORY_PRESSURE, MEMORY),
    Signal.PIDS: SignalRow(PID_PRESSURE, PIDS, in_bytes=False),
    Signal.NODE_FS: SignalRow(DISK_PRESSURE, STORAGE),
    Signal.NODE_FS_INODES: SignalRow(DISK_PRESSURE, INODES, in_bytes=False),
    Signal.IMAGE_FS: SignalRow(DISK_PRESSURE, STORAGE),
    Signal.IMAGE_FS_INODES: SignalRow(DISK_PRESSURE, INODES, in_bytes=False),
    Signal.CONTAINER_FS: SignalRow(DISK_PRESSURE, STORAGE),
    Signal.CONTAINER_FS_INODES: SignalRow(DISK_PRESSURE, INODES, in_bytes=False),
}
_RANK: Final = {signal: rank for rank, signal in enumerate(SIGNALS)}


def is_memory(signal: Signal) -> bool:
    """Report whether a signal goes before all that are not about memory."""
    return SIGNALS[signal].resource == MEMORY


def by_urgency(threshold: Threshold) -> tuple[bool, bool, int]:
    """Order met thresholds: the first one decides what is reclaimed and which pod is evicted.

    The kubelet takes memory first (byEvictionPriority), and one at random of several that are left, because it keeps them
    in a map. Here hard ones go before soft ones, then process ids before disks, because without one nothing can be ended.
    """
    return not is_memory(threshold.signal), not threshold.is_hard, _RANK[threshold.signal]
