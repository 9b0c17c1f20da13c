"""How soon does a node react again after kill -9 of its worker? Measured and printed; README.md has the figure."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import STARTS_WITHIN, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.mark.stress
@pytest.mark.parametrize("pods", [8, 110])
def test_a_killed_worker_reacts_again(
    pods: int, tmp_path: Path, containerd: Containerd, temporal: TemporalServer
) -> None:
    """A container that died with the worker runs again; no other one was restarted."""
    with tempolet_node(tmp_path, containerd, temporal, keys={"maxPods": pods}) as node:
        for number in range(pods):
            node.apply(pod_manifest(f"p-{number}"))

        def all_ready(restarts: int) -> bool:
            shots = node.snapshots()
            return sum(one.ready for one in shots) == pods and sum(one.restarts for one in shots) == restarts

        node.until(lambda: all_ready(0), f"{pods} pods ready", STARTS_WITHIN)
        victim = node.until_running("p-0")
        node.stop("worker", signal.SIGKILL)
        os.kill(container_pid(containerd, victim.containers["main"].container_id), signal.SIGKILL)
        began = time.monotonic()
        node.start("worker")
        node.until_pod("p-0", lambda one: one.restarts == 1)
        took = time.monotonic() - began
        load = os.getloadavg()[0]
        node.until(lambda: all_ready(1), "nothing else restarted", STARTS_WITHIN)
        print(f"{pods} pods: reacted {took:.1f} s after the start of the worker's process, load {load:.0f}")
