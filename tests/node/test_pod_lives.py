"""Does a manifest in a folder become a running pod on real containerd, stay running, and go without a trace?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node of its own for one test."""
    with TempoletNode(tmp_path, containerd, temporal) as made:
        yield made


def test_a_plain_pod_runs_and_goes(node: TempoletNode) -> None:
    """Running with an address of the network, log in the kubelet's place; gone with directories and logs."""
    node.apply(pod_manifest("plain", "echo hello; sleep 3600"))
    snapshot = node.until_running("plain")
    assert snapshot.status["podIP"].startswith("10.214.")
    log = node.logs / f"default_{snapshot.name}_{snapshot.uid}" / "main" / "0.log"
    node.until(lambda: "stdout F hello" in log.read_text(), "its output in the log")
    node.remove("plain")
    node.until(lambda: node.pod("plain") is None, "its snapshot gone")
    node.until(lambda: not log.parents[1].exists() and not (node.root_dir / "pods" / snapshot.uid).exists(), "no trace")
