"""A node whose pods have a small file system of their own, and pods that fill it."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.machine import leftovers
from worker.standalone.temporal_server import TemporalServer

LEAST: Final = "100Mi"
"""The threshold of nodefs.available."""
_SIZE: Final = "256m"


@contextlib.contextmanager
def small_disk_node(
    directory: Path, containerd: Containerd, temporal: TemporalServer, **more: Any
) -> Iterator[TempoletNode]:
    """Run the node; its conditions are shown for a second after they were last measured."""
    root_dir = directory / "kubelet"
    root_dir.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", root_dir], check=True)
    keys = {"evictionHard": {"nodefs.available": LEAST}, "evictionPressureTransitionPeriod": "1s"}
    try:
        with TempoletNode(directory, containerd, temporal, keys=keys, **more) as node:
            yield node
    finally:
        leftovers.unmount_below(directory)


def holding(name: str, megabytes: int, **spec: Any) -> dict[str, Any]:
    """Build a pod that writes this much into its emptyDir, and waits."""
    command = f"dd if=/dev/zero of=/data/big bs=1M count={megabytes}; sleep 3600"
    manifest = pod_manifest(name, command, volumes=[{"name": "data", "emptyDir": {}}], **spec)
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return manifest
