"""Are pods and what happens to them counted once, and not again by the next worker?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from worker.host.pod_cache import PodCache
from worker.host.pod_metrics import PodMetrics
from worker.telemetry.exposition import parse_families
from worker.telemetry.metrics import Metrics

SPEC = {
    "containers": [{"name": "main", "image": "m"}, {"name": "more", "image": "m"}],
    "initContainers": [{"name": "setup", "image": "s"}],
    "ephemeralContainers": [{"name": "debug", "image": "d"}],
}
NewPod = Callable[..., PodSnapshot]


class Node:
    """The counts of one worker."""

    def __init__(self, root_dir: Path) -> None:
        self.cache = PodCache(root_dir, whole_pods=True)
        self.metrics = Metrics("n")
        self.counted = PodMetrics(self.cache, self.metrics)

    def series(self, name: str) -> dict[str, float]:
        """Read a family's samples by their labels; those that are 0 are left out."""
        found = {}
        for line in parse_families(self.metrics.render().decode())[name].lines:
            sample, _, value = line.rpartition(" ")
            if float(value):
                found[sample.removeprefix(name)] = float(value)
        return found


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a node without pods."""
    return Node(tmp_path)


def snapshot(uid: str = "u", source: str = "api", lifecycle: str = "sync", **more: Any) -> PodSnapshot:
    """Return a pod's newest snapshot."""
    now = datetime.now(UTC).isoformat()
    pod = {"metadata": {"name": uid, "annotations": {"kubernetes.io/config.seen": now}, "uid": uid}, "spec": SPEC}
    return PodSnapshot(f"pod/{uid}", "n", "ns", uid, uid, source, "", lifecycle, pod=pod, **more)


def ended(name: str, instance: str, code: int = 0, state: str = "state") -> dict[str, Any]:
    """Return the status of a container that has ended."""
    reason = "Error" if code else "Completed"
    return {"name": name, state: {"terminated": {"containerID": instance, "exitCode": code, "reason": reason}}}


def test_pods_by_lifecycle_and_source(node: Node) -> None:
    """A manifest that is gone leaves an orphan; the API lists a pod until it is over."""
    for one in (
        snapshot("a"),
        snapshot("b", phase="Succeeded", lifecycle="terminated"),
        snapshot("c", deleting=True, lifecycle="terminating"),
        snapshot("d", "file"),
        snapshot("e", "file", deleting=True, lifecycle="terminating"),
    ):
        node.counted.publish(one)
    assert node.series("kubelet_desired_pods") == {'{static=""}': 3, '{static="true"}': 1}
    assert node.series("kubelet_active_pods") == {'{static=""}': 2, '{static="true"}': 2}
    assert node.series("kubelet_working_pods") == {
        '{config="desired",lifecycle="sync",static=""}': 1,
        '{config="desired",lifecycle="terminated",static=""}': 1,
        '{config="desired",lifecycle="terminating",static=""}': 1,
        '{config="desired",lifecycle="sync",static="true"}': 1,
        '{config="orphan",lifecycle="terminating",static="true"}': 1,
    }


def test_resizes_by_their_conditions(node: Node) -> None:
    """As long as they last."""
    waits, goes_on = {"type": "PodResizePending", "reason": "Deferred"}, {"type": "PodResizeInProgress"}
    node.counted.publish(snapshot("a", status={"conditions": [waits]}))
    node.counted.publish(snapshot("b", status={"conditions": [waits, goes_on]}))
    assert node.series("kubelet_pod_pending_resizes") == {'{reason="deferred"}': 2}
    assert node.series("kubelet_pod_in_progress_resizes") == {"": 1}
    for one in "ab":
        node.counted.publish(snapshot(one))
    text = node.metrics.render().decode()
    assert "kubelet_pod_pending_resizes{" not in text
    assert "kubelet_pod_in_progress_resizes 0" in text


def test_a_resize_took_from_its_first_step_to_its_last(node: Node) -> None:
    """It is over with its condition; of a pod that ends meanwhile, nothing is told."""
    noon, goes_on = datetime(2026, 11, 28, 12, tzinfo=UTC), {"conditions": [{"type": "PodResizeInProgress"}]}
    for uid in "ab":
        node.counted.publish(snapshot(uid, status=goes_on))
        node.counted.resized(uid, (noon, noon + timedelta(milliseconds=20)), failed=False)
        node.counted.publish(snapshot(uid, status=goes_on))
    node.counted.publish(snapshot("b", lifecycle="terminating"))
    for uid in "ab":
        node.counted.publish(snapshot(uid))
    found = node.series("kubelet_pod_resize_duration_milliseconds")
    assert found['_sum{success="true"}'] == 20
    assert found['_count{success="true"}'] == 1


def test_a_new_pod_is_met_once(node: Node) -> None:
    """With the number of its containers, and the time since it was first seen."""
    node.counted.publish(snapshot())
    node.counted.publish(snapshot(phase="Running"))
    found = node.series("kubelet_containers_per_pod_count")
    assert (found["_count"], found["_sum"]) == (1, 2)
    assert node.series("kubelet_pod_worker_start_duration_seconds")["_count"] == 1


@pytest.mark.parametrize(("source", "static"), [("file", "true"), ("api", "")])
def test_a_pod_that_comes_back_with_its_uid(node: Node, source: str, static: str) -> None:
    """Only after it was over."""
    node.counted.publish(snapshot("u", source))
    assert node.series("kubelet_restarted_pods_total") == {}
    node.counted.publish(snapshot("u", source, "terminated", deleting=True))
    node.counted.publish(snapshot("u", source))
    assert node.series("kubelet_restarted_pods_total") == {f'{{static="{static}"}}': 1}


@pytest.mark.parametrize(
    ("reason", "counted"),
    [
        pytest.param("OutOfcpu", "OutOfcpu", id="known"),
        pytest.param("OutOfexample.com/gpu", "OutOfExtendedResources", id="an-extended-resource"),
        pytest.param("NodeAffinity", "Other", id="any-other"),
    ],
)
def test_a_rejected_pod(node: Node, tmp_path: Path, reason: str, counted: str) -> None:
    """Once, though its status is published again, also by the next worker."""
    status = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {reason}"}
    one = snapshot(lifecycle="terminated", phase="Failed", status=status)
    with node.cache:
        for _ in range(2):
            node.counted.publish(one)
    assert node.series("kubelet_admission_rejections_total") == {f'{{reason="{counted}"}}': 1}
    following = Node(tmp_path)
    following.counted.publish(one)
    assert following.series("kubelet_admission_rejections_total") == {}


def test_an_evicted_pod_was_admitted(node: Node) -> None:
    """Its reason is no rejection."""
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    node.counted.publish(snapshot(phase="Failed", status=status))
    assert node.series("kubelet_admission_rejections_total") == {}


def test_each_end_of_a_container(node: Node) -> None:
    """In a crash loop it is the last state of a container that waits."""
    first = {"containerStatuses": [{**ended("main", "c1", 1, "lastState"), "state": {"waiting": {}}}]}
    second = {"containerStatuses": [ended("main", "c2", 1)], "initContainerStatuses": [ended("setup", "c3")]}
    for status in ({}, first, first, second, second):
        node.counted.publish(replace(snapshot(), status=status))
    assert node.series("kubelet_terminated_containers_total") == {
        '{container_type="container",exit_code="1",reason="Error"}': 2,
        '{container_type="init_container",exit_code="0",reason="Completed"}': 1,
    }


@pytest.mark.parametrize(
    ("name", "image", "kind"),
    [
        ("main", "m", "container"),
        ("setup", "s", "init_container"),
        ("debug", "d", "ephemeral_container"),
        ("unknown", "unknown", "container"),
    ],
)
def test_types_of_containers(node: Node, name: str, image: str, kind: str) -> None:
    """By name, and by the image that is waited for."""
    node.counted.publish(snapshot())
    assert (node.counted.type_of("u", name), node.counted.type_with("u", image)) == (kind, kind)
    assert node.counted.type_of("gone", name) == "container"
