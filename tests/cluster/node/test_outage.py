"""Does a Node say that Temporal is away, since when, and that it leads its pods itself?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_node import ClusterNode, condition
from tests.cluster.control_plane import ControlPlane
from tests.node.away.stopped_temporal import own_temporal, resume, suspend
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture
AVAILABLE = "WorkflowEngineAvailable"


@pytest.fixture
def node(
    tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer, plane: ControlPlane, node_ip: str
) -> Iterator[ClusterNode]:
    """Run a node of the cluster with a Temporal of its own."""
    with ClusterNode(tmp_path, containerd, own_temporal, plane=plane, node_ip=node_ip, away_after="5s") as made:
        made.until_started()
        yield made


def test_a_node_tells_of_an_outage_and_stays_ready(node: ClusterNode) -> None:
    """Its pods go on meanwhile: one that is created runs."""
    node.run_pod("before")
    node.api.until(node.path, lambda one: condition(one, AVAILABLE) == "True", "Temporal is available")
    suspend(node.temporal)
    node.run_pod("meanwhile")
    found = node.api.until(node.path, lambda one: condition(one, AVAILABLE) == "False", "Temporal is away")
    told = next(one for one in found["status"]["conditions"] if one["type"] == AVAILABLE)
    assert told["reason"] == "TemporalAway"
    assert "is due for" in told["message"]
    assert "itself" in told["message"]
    assert condition(found, "Ready") == "True"
    resume(node.temporal)
    node.api.until(node.path, lambda one: condition(one, AVAILABLE) == "True", "Temporal is back")
