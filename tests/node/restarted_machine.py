"""Plays a restart of the machine to a node under test: the sandboxes of its pods are gone, and its poller finds the id of another boot."""

import os
import signal

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import TempoletNode


def restart_machine(node: TempoletNode, *pods: PodSnapshot) -> None:
    """Kill the sandboxes of these pods while the poller does not run, and start it again."""
    kept = node.root_dir / "tempolet" / "boot-id"
    node.until(kept.exists, "the boot is kept")
    node.stop("poller")
    for one in pods:
        os.kill(container_pid(node.containerd, one.sandbox_id), signal.SIGKILL)
    kept.write_text("of-another-boot\n")
    node.start("poller")
