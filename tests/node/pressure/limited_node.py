"""A node whose pods may use 1 GiB of the machine together, whatever else the machine does."""

from pathlib import Path
from typing import Any, Final

from activities.machine.node_capacity import memory_capacity
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

MI: Final = 1 << 20
MOST: Final = 1024
"""MiB that all pods may use together."""


def limited_node(directory: Path, containerd: Containerd, temporal: TemporalServer, threshold: int) -> TempoletNode:
    """Make the node; it is under pressure while less than `threshold` MiB are left for its pods, and shows it for a second after that."""
    keys: dict[str, Any] = {
        "evictionHard": {"memory.available": f"{threshold}Mi"},
        "evictionPressureTransitionPeriod": "1s",
        "systemReserved": {"memory": str(memory_capacity() - MOST * MI)},
        "enforceNodeAllocatable": ["pods"],
    }
    return TempoletNode(directory, containerd, temporal, keys=keys)
