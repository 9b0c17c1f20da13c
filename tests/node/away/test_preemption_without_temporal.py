"""Does a node stop the right pod for a critical one while Temporal is away, and does its history know it afterwards?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.admission.small_cpu import VITAL, asking, small_cpu_node
from tests.node.away.stopped_temporal import RETURNED, own_temporal, resume, suspend
from tests.node.operating import history
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with little cpu and a Temporal of its own."""
    with small_cpu_node(tmp_path / "node", containerd, own_temporal, away_after="5s") as made:
        yield made


def test_a_critical_pod_takes_the_place_of_another_without_temporal(node: TempoletNode) -> None:
    """The one that suffices alone; the other stays."""
    node.apply(asking("small", 200))
    node.apply(asking("large", 300))
    small, large = node.until_running("small"), node.until_running("large")
    suspend(node.temporal)
    node.apply(asking("vital", 250, **VITAL))
    vital = node.until_running("vital")
    ended = node.until_pod("large", lambda one: one.lifecycle == "terminated", "the large one is down")
    assert (ended.uid, ended.phase, ended.reason) == (large.uid, "Failed", "Preempting")
    resume(node.temporal)
    node.until(lambda: node.log("worker").count(RETURNED) >= 2, "the pods are handed back")
    told = history(node, ended)
    assert "while Temporal was away" in told
    why = f"the node chose this pod because {vital.namespace}/{vital.name} needs 250m cpu"
    assert why in told.split("while Temporal was away")[1]
    now = node.pod("small")
    assert now is not None
    assert (now.phase, now.containers) == ("Running", small.containers)
