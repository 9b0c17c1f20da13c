"""Does a node on real containerd that runs short of disk evict the right one of several pods, as the kubelet would?"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.node_pressure import read_node_pressure
from proto.pod_snapshot import PodSnapshot
from tests.node.operating import tempolet
from tests.node.pod_story import story
from tests.node.small_disk import LEAST, holding, small_disk_node
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture
def small_disk(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Start a node whose pods have a file system of their own, which is soon full."""
    with small_disk_node(tmp_path / "node", containerd, temporal) as node:
        yield node


def test_a_full_disk_evicts_the_pod_that_fills_it_most(small_disk: TempoletNode) -> None:
    """A pod of the system that uses more stays, so does one that uses less, and they run on once there is room again."""
    node = small_disk
    node.apply(holding("vital", 70, priorityClassName="system-node-critical", priority=2_000_001_000))
    node.apply(holding("small", 20))
    others = {name: node.until_running(name) for name in ("vital", "small")}
    node.stop("worker", signal.SIGKILL)
    node.start("worker")  # it knows the others from what it has kept of them
    node.apply(holding("greedy", 80))
    greedy = node.until_pod("greedy", lambda one: one.lifecycle == "terminated", "the greedy one is down")
    assert (greedy.phase, greedy.reason) == ("Failed", "Evicted")
    assert greedy.status["message"].startswith(
        f"The node was low on resource: ephemeral-storage. Threshold quantity: {LEAST}, available: "
    )
    target = next(one for one in greedy.status["conditions"] if one["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == (
        "True",
        "TerminationByKubelet",
        greedy.status["message"],
    )
    chosen = "it uses "
    told = story(node, greedy)
    assert any(one.startswith(f"the node chose this pod because {chosen}") for one in told), told
    assert any("the next would have been default/small" in one for one in told), told
    code, explained = tempolet(node, "explain", f"{greedy.namespace}/{greedy.name}")
    assert code == 0, explained
    assert f"this pod because {chosen}" in " ".join(explained.split())
    node.until(lambda: read_node_pressure(node.root_dir) == set(), "there is room again")
    for name, before in others.items():
        assert _is_as_before(node.pod(name), before)


def _is_as_before(now: PodSnapshot | None, before: PodSnapshot) -> bool:
    """Report whether a pod has run on, in the same containers."""
    return now is not None and (now.phase, now.ready, now.containers) == ("Running", True, before.containers)
