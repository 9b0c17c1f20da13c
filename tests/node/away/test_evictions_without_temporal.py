"""Does a node that runs short of disk evict the right pod while Temporal is away, and does its history know it afterwards?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.away.stopped_temporal import RETURNED, own_temporal, resume, suspend
from tests.node.operating import history
from tests.node.small_disk import LEAST, holding, small_disk_node
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with a small disk and a Temporal of its own."""
    with small_disk_node(tmp_path / "node", containerd, own_temporal, away_after="5s") as made:
        yield made


def test_the_pod_that_fills_the_disk_is_evicted_without_temporal(node: TempoletNode) -> None:
    """One that was started before stays, and one that is started meanwhile goes."""
    node.apply(holding("small", 40))
    small = node.until_running("small")
    suspend(node.temporal)
    node.apply(holding("greedy", 120))
    greedy = node.until_pod("greedy", lambda one: one.lifecycle == "terminated", "the greedy one is down")
    assert (greedy.phase, greedy.reason) == ("Failed", "Evicted")
    assert f"ephemeral-storage. Threshold quantity: {LEAST}, available: " in greedy.status["message"]
    resume(node.temporal)
    node.until(lambda: node.log("worker").count(RETURNED) >= 2, "both pods are handed back")
    told = history(node, greedy)
    assert "while Temporal was away" in told
    assert "the node chose this pod because it uses " in told.split("while Temporal was away")[1]
    now = node.pod("small")
    assert now is not None
    assert (now.phase, now.containers) == ("Running", small.containers)
