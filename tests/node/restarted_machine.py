"""Plays a restart of the machine to a node under test: the sandboxes of its pods are gone, and its processes find the id of another boot."""

import os
import signal
from collections.abc import Sequence
from typing import Final

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import TempoletNode
from worker.machine.boots import OF_DEVICES, OF_POLLER

_KEPT: Final = {"poller": OF_POLLER, "worker": OF_DEVICES}


def restart_machine(node: TempoletNode, *pods: PodSnapshot, roles: Sequence[str] = ("poller",)) -> None:
    """Kill the sandboxes of these pods while the poller, or more of the node, does not run, and start it again."""
    state = node.root_dir / "tempolet"
    kept = [state / _KEPT[one] for one in roles]
    node.until(lambda: all(one.exists() for one in kept), "the boot is kept")
    for role in roles:
        node.stop(role)
    for one in pods:
        os.kill(container_pid(node.containerd, one.sandbox_id), signal.SIGKILL)
    for file in kept:
        file.write_text("of-another-boot\n")
    for role in roles:
        node.start(role)
