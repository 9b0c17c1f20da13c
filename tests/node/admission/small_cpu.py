"""A node that leaves its pods half a cpu, and pods that request a part of it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from activities.machine.node_capacity import cpu_capacity
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

CPU: Final = 500
"""What the node has for its pods, in thousandths."""
KEYS: Final = {"systemReserved": {"cpu": f"{cpu_capacity() - CPU}m"}}
VITAL: Final[dict[str, Any]] = {"priorityClassName": "system-node-critical", "priority": 2_000_001_000}
"""Of the spec of a critical pod, as the API has it."""


@contextlib.contextmanager
def small_cpu_node(
    directory: Path, containerd: Containerd, temporal: TemporalServer, **more: Any
) -> Iterator[TempoletNode]:
    """Run a node without a cluster."""
    with TempoletNode(directory, containerd, temporal, keys=KEYS, **more) as node:
        yield node


def asking(
    name: str, cpu: int, command: str = "sleep 3600", *, guaranteed: bool = False, **spec: Any
) -> dict[str, Any]:
    """Build a pod that requests so much."""
    manifest = pod_manifest(name, command, **spec)
    amounts = {"cpu": f"{cpu}m", "memory": "32Mi"}
    resources = {"requests": amounts} | ({"limits": amounts} if guaranteed else {})
    manifest["spec"]["containers"][0]["resources"] = resources
    return manifest
