"""Does a node give CPUs to one container alone while Temporal is away, and does the ledger know it afterwards?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.away.stopped_temporal import RETURNED, own_temporal, resume, suspend
from tests.node.hardware.cpus import CPUS, KEYS, OTHERS, allowed, whole
from tests.node.recordings.recorded_node import status
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture
pytestmark = pytest.mark.skipif(CPUS < 2, reason="one CPU is reserved, and another one is given")


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with the static policy and a Temporal of its own."""
    with TempoletNode(tmp_path / "node", containerd, own_temporal, keys=KEYS, away_after="5s") as made:
        yield made


def test_the_worker_keeps_the_ledger_meanwhile(node: TempoletNode) -> None:
    """A pod is given its CPUs, another one is rejected, and the node's workflow knows the first one when Temporal is back."""
    node.apply(pod_manifest("shared"))
    shared = node.until_running("shared")
    status(node)  # its workflow runs
    suspend(node.temporal)
    node.apply(whole("whole"))
    own = node.until_running("whole")
    assert allowed(node, own) == OTHERS
    node.until(lambda: allowed(node, shared) == "0", "the other container gives way")
    node.apply(whole("late", 1))
    late = node.until_pod("late", lambda one: one.phase == "Failed", "nothing is left")
    assert late.reason == "UnexpectedAdmissionError"
    resume(node.temporal)
    node.until(lambda: node.log("worker").count(RETURNED) >= 3, "the pods and the node are handed back")
    told = node.until(lambda: status(node).assignments, "the ledger is handed back")
    assert told[own.uid].containers["main"].cpus == OTHERS
    assert told.keys() == {own.uid}
