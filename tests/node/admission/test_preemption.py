"""Does a node on real containerd stop the right one of several pods for a critical one, which starts once that is gone?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.admission.small_cpu import VITAL, asking, small_cpu_node
from tests.node.operating import tempolet
from tests.node.pod_story import story
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

SLOW_TO_END = "trap 'sleep 2; exit 0' TERM; sleep 3600 & wait"


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Start a node with little cpu for its pods."""
    with small_cpu_node(tmp_path / "node", containerd, temporal) as made:
        yield made


def test_a_critical_pod_takes_the_place_of_another(node: TempoletNode) -> None:
    """Of the one that suffices alone and is not Guaranteed, in its own time; on a node alone static pods are no critical ones."""
    node.apply(asking("solid", 200, guaranteed=True))
    node.apply(asking("small", 100))
    node.apply(asking("large", 200, SLOW_TO_END, terminationGracePeriodSeconds=20))
    others = {name: node.until_running(name) for name in ("solid", "small")}
    large = node.until_running("large")
    node.apply(asking("ordinary", 150))
    refused = node.until_pod("ordinary", lambda one: one.phase == "Failed", "it is refused")
    assert (refused.reason, refused.status["message"]) == (
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 150, used: 500, capacity: 500",
    )
    node.apply(asking("vital", 150, **VITAL))
    vital = node.until_running("vital")
    ended = node.pod("large")
    assert ended is not None
    assert (ended.uid, ended.phase, ended.reason) == (large.uid, "Failed", "Preempting")
    assert ended.status["message"] == "Preempted in order to admit critical pod"
    stopped = ended.status["containerStatuses"][0]["state"]["terminated"]
    assert (stopped["exitCode"], stopped["finishedAt"] <= vital.started_at) == (0, True)
    _is_explained(node, ended, vital)
    for name, before in others.items():
        assert _is_as_before(node.pod(name), before)
    code, listed = tempolet(node, "pods")
    assert code == 0
    assert "Preempting" in listed


def test_a_resize_of_a_critical_pod_takes_the_place_of_another(node: TempoletNode) -> None:
    """The same container then has more; the pod that is stopped is told for whom."""
    sizes = [asking("vital", cpu, **VITAL) for cpu in (150, 300)]
    for one in sizes:
        one["metadata"]["uid"] = "uid-of-vital"  # without its own uid an edit replaces a static pod
    node.apply(sizes[0])
    node.apply(asking("solid", 200, guaranteed=True))
    node.apply(asking("small", 100))
    vital, solid, small = (node.until_running(name) for name in ("vital", "solid", "small"))
    node.apply(sizes[1])
    resized = node.until_pod("vital", lambda one: _requested_cpu(one) == "300m", "it has what it asks for")
    ended = node.pod("small")
    assert ended is not None
    assert (ended.uid, ended.phase, ended.reason) == (small.uid, "Failed", "Preempting")
    assert _is_as_before(node.pod("solid"), solid)
    assert resized.containers["main"].container_id == vital.containers["main"].container_id
    told = story(node, ended)
    chosen = f"{vital.namespace}/{vital.name} needs 100m cpu more than is left"
    assert any(chosen in one for one in told), told


def test_a_critical_pod_for_which_all_are_too_small(node: TempoletNode) -> None:
    """It is refused, and nobody is stopped."""
    node.apply(asking("small", 100))
    small = node.until_running("small")
    node.apply(asking("vital", 600, **VITAL))
    vital = node.until_pod("vital", lambda one: one.phase == "Failed", "it is refused")
    assert vital.reason == "UnexpectedAdmissionError"
    assert vital.status["message"].endswith("no set of running pods found to reclaim resources: [(res: cpu, q: 100), ]")
    assert _is_as_before(node.pod("small"), small)


def _is_explained(node: TempoletNode, large: PodSnapshot, vital: PodSnapshot) -> None:
    chosen = (
        f"{vital.namespace}/{vital.name} needs 150m cpu more than is left, and this Burstable pod requests 200m cpu"
    )
    told = story(node, large)
    assert any(one.startswith(f"the node chose this pod because {chosen}") for one in told), told
    code, explained = tempolet(node, "explain", f"{large.namespace}/{large.name}")
    assert code == 0, explained
    assert f"this pod because {chosen}" in " ".join(explained.split())


def _requested_cpu(pod: PodSnapshot) -> object:
    shown = pod.status["containerStatuses"][0].get("resources") or {}
    return (shown.get("requests") or {}).get("cpu")


def _is_as_before(now: PodSnapshot | None, before: PodSnapshot) -> bool:
    """Report whether a pod has run on, in the same containers."""
    return now is not None and (now.phase, now.ready, now.containers) == ("Running", True, before.containers)
