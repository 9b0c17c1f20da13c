"""Does a node that measures its memory each second, because it is nearly short of it, write nothing while it has enough?"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proto.node_pressure import node_pressure_path, read_node_pressure
from tests.node.load.writes import transitions
from tests.node.pressure.limited_node import MOST, limited_node
from tests.node.tempolet_node import TempoletNode, pod_manifest, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

QUIET: Final = 5.0
"""Seconds: as many rounds."""


def test_no_event_is_written_while_nothing_is_short(
    tmp_path: Path, containerd: Containerd, temporal: TemporalServer
) -> None:
    """Neither to a history nor to the file of conditions."""
    with limited_node(tmp_path / "node", containerd, temporal, MOST - 64) as node:
        node.until_started()
        node.apply(pod_manifest("web"))
        node.until_running("web")
        node.until(lambda: node_pressure_path(node.root_dir).exists(), "the node is judged")
        before, written = until_quiet(node), node_pressure_path(node.root_dir).stat().st_mtime_ns
        time.sleep(QUIET)  # that nothing happens is no event
        assert of_node(node) == before
        assert node_pressure_path(node.root_dir).stat().st_mtime_ns == written
        assert read_node_pressure(node.root_dir) == set()


def until_quiet(node: TempoletNode) -> Mapping[str, tuple[int, int]]:
    """Wait until no workflow of the node changes any more; returns their transitions and events."""
    seen = [of_node(node)]

    def is_quiet() -> bool:
        time.sleep(1)  # as above
        seen.append(of_node(node))
        return seen[-1] == seen[-2]

    node.until(is_quiet, "no workflow changes")
    return seen[-1]


def of_node(node: TempoletNode) -> Mapping[str, tuple[int, int]]:
    """Return those of this node's workflows; Temporal is shared."""
    found = {run: numbers for run, numbers in wait(transitions(node)).items() if node.name in run}
    assert len(found) == 2, "one of the pod and one of the node"
    return found
