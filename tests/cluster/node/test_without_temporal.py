"""Is a cluster's node that starts without Temporal Ready, does it answer kubectl, and does it go on once Temporal is back?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_node import ClusterNode, NewNode
from tests.cluster.kubectl import Kubectl
from tests.free_ports import free_ports
from tests.node.tempolet_node import pod_manifest
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture
def own_temporal(node_dir: Path, tmp_path: Path) -> Iterator[TemporalServer]:
    """Run a Temporal that the test may stop."""
    with TemporalServer(tmp_path / "temporal", node_dir / "own", free_ports(1)[0]) as server:
        yield server


@pytest.fixture
def node(tmp_path: Path, own_temporal: TemporalServer, new_node: NewNode) -> Iterator[ClusterNode]:
    """Run a node on it."""
    with new_node(tmp_path / "node", temporal=own_temporal) as made:
        made.until_started()
        yield made


def test_a_node_starts_without_temporal(node: ClusterNode, own_temporal: TemporalServer, kubectl: Kubectl) -> None:
    """Its running pod can be looked into, a new one waits, and both are led on by the same processes."""
    node.run_pod("here", "echo said; sleep 3600")
    before = node.until_running("here").containers["main"].container_id
    for role in node.roles:
        node.stop(role)
    own_temporal.stop()
    node.start_all()
    node.until(lambda: all("waiting for Temporal at" in node.log(role) for role in ("worker", "poller")), "both wait")
    node.until_ready()
    assert kubectl.ok("logs", "here") == "said\n"
    assert kubectl.ok("exec", "here", "--", "echo", "inside") == "inside\n"
    node.create_pod(pod_manifest("waits"))
    own_temporal.start()
    node.until_pod_ready("waits")
    assert node.until_running("here").containers["main"].container_id == before
    assert all(process.poll() is None for process in node.processes.values())
