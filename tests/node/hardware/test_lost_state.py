"""Does a container keep its CPUs and its memory if both the ledger and the state files are lost while it runs?"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.pod_snapshot import FILE_NAME, POD_FILE_NAME
from tests.node.away import databases
from tests.node.away.stopped_temporal import own_temporal
from tests.node.hardware.cpus import ALL, CPUS, KEYS, OTHERS, allowed, whole
from tests.node.recordings.recorded_node import status
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from workflows.decide.cpus.state_file import STATE_FILE

__all__ = ["own_temporal"]  # a fixture
pytestmark = pytest.mark.skipif(CPUS < 2, reason="one CPU is reserved, and another one is given")


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with the static policy and a Temporal of its own."""
    with TempoletNode(tmp_path / "node", containerd, own_temporal, keys=KEYS) as made:
        yield made


def lose(node: TempoletNode, *, snapshots: bool) -> None:
    """Stop everything but the pods, and delete Temporal's database, the node's own record of it and the state file."""
    for role in reversed(node.roles):
        node.stop(role)
    node.temporal.stop()
    databases.delete(node.temporal)
    shutil.rmtree(node.root_dir / "tempolet" / "away")
    (node.root_dir / STATE_FILE).unlink()
    if snapshots:
        for name in (FILE_NAME, POD_FILE_NAME):
            for one in node.root_dir.glob(f"pods/*/{name}"):
                one.unlink()


@pytest.mark.parametrize("snapshots", [pytest.param(False, id="snapshots-left"), pytest.param(True, id="all-lost")])
def test_a_running_container_keeps_its_cpus(node: TempoletNode, snapshots: bool) -> None:
    """A pod that comes at the same time does not get them, and they are free when their pod is over."""
    node.apply(pod_manifest("shared"))
    node.apply(whole("whole"))
    shared, own = node.until_running("shared"), node.until_running("whole")
    node.until(lambda: allowed(node, shared) == "0", "the other container gives way")
    status(node)
    lose(node, snapshots=snapshots)
    node.apply(whole("late", 1))
    node.temporal.start()
    node.start_all()
    late = node.until_pod("late", lambda one: one.phase == "Failed", "nothing is left")
    assert late.reason == "UnexpectedAdmissionError"
    again = node.until_running("whole")
    assert again.containers["main"].container_id == own.containers["main"].container_id
    assert (allowed(node, own), allowed(node, shared)) == (OTHERS, "0")
    assert json.loads((node.root_dir / STATE_FILE).read_text())["entries"] == {own.uid: {"main": OTHERS}}
    node.take_away("whole", "late")
    node.until(lambda: allowed(node, shared) == ALL, "the CPUs are shared again")
    node.apply(whole("next"))
    assert allowed(node, node.until_running("next")) == OTHERS
