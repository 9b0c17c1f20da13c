"""Does a node recover when its processes and its runtime die, and when manifests are invalid?"""

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.cri.v1 import api_pb2 as cri
from proto.refusals import read_refusals
from tests.node.containerd_view import container_pid, containers_of, sandboxes_of
from tests.node.tempolet_node import PATIENCE, TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node of its own for each fault."""
    with tempolet_node(tmp_path, containerd, temporal) as made:
        yield made


def ours(node: TempoletNode) -> list[cri.Container]:
    """Return all running containers of this node's pods."""
    return [
        one
        for one in containers_of(node.containerd, "")
        if one.labels["io.kubernetes.pod.name"].endswith(node.name)
        and one.state == cri.ContainerState.CONTAINER_RUNNING
    ]


@pytest.mark.parametrize("role", ["worker", "poller"])
@pytest.mark.parametrize("pods", [pytest.param(8), pytest.param(30, marks=pytest.mark.stress)])
def test_a_kill_in_the_middle_of_many_starts_loses_and_doubles_nothing(
    node: TempoletNode, role: str, pods: int
) -> None:
    """There are exactly as many sandboxes and running containers as expected after the restart."""
    node.apply(pod_manifest("first"))
    node.until_running("first")
    node.remove("first")
    node.until(lambda: not node.snapshots(), "the first pod gone")
    for number in range(pods):
        node.apply(pod_manifest(f"many-{number}"))
    moment = random.Random().randrange(1, pods - 2)
    node.until(lambda: len(ours(node)) >= moment, f"{moment} containers running")
    node.stop(role, signal.SIGKILL)
    node.start(role)
    node.until(lambda: len([one for one in node.snapshots() if one.ready]) == pods, f"all ready, killed at {moment}")
    assert len(ours(node)) == pods
    ready = [ready for one in node.snapshots() for _, ready in sandboxes_of(node.containerd, one.uid)]
    assert ready == [True] * pods
    assert [one.restarts for one in node.snapshots()] == [0] * pods


def test_a_worker_that_was_dead_finds_what_happened_meanwhile(node: TempoletNode) -> None:
    """A container that exited meanwhile is restarted once, and its exit code is reported."""
    node.apply(pod_manifest("orphan"))
    first = node.until_running("orphan")
    node.stop("worker", signal.SIGKILL)
    os.kill(container_pid(node.containerd, first.containers["main"].container_id), signal.SIGKILL)
    node.start("worker")
    second = node.until_pod("orphan", lambda one: one.ready and one.restarts == 1)
    assert second.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


def test_a_poller_that_was_dead_finds_what_happened_meanwhile(node: TempoletNode) -> None:
    """A manifest removed, another added, a third edited, a container killed: all are handled."""
    for name in ("removed", "edited", "killed"):
        node.apply(pod_manifest(name))
    edited, killed = (node.until_running(name) for name in ("edited", "killed"))
    node.until_running("removed")
    node.stop("poller", signal.SIGKILL)
    node.remove("removed")
    node.apply(pod_manifest("edited", "sleep 3601"))
    node.apply(pod_manifest("added"))
    os.kill(container_pid(node.containerd, killed.containers["main"].container_id), signal.SIGKILL)
    node.start("poller")
    node.until_gone("removed")
    node.until_running("added")
    node.until_pod("edited", lambda one: one.ready and one.uid != edited.uid)
    node.until_pod("killed", lambda one: one.ready and one.restarts == 1)


def test_a_second_worker_and_a_second_poller_refuse_to_start(node: TempoletNode) -> None:
    """The error names the process that holds the node."""
    node.apply(pod_manifest("held"))
    node.until_running("held")
    for role in ("worker", "poller"):
        first = node.processes.pop(role)
        second = node.start(role)
        assert second.wait(timeout=PATIENCE) == 4
        assert f"pid {first.pid}" in node.log(role)
        node.processes[role] = first


def test_a_node_name_is_served_once_whatever_the_root_directory(
    node: TempoletNode, tmp_path: Path, containerd: Containerd, temporal: TemporalServer
) -> None:
    """Two workers on one task queue would run each other's pods, so the second exits and names the first."""
    node.apply(pod_manifest("named"))
    node.until_running("named")
    other = TempoletNode(tmp_path / "other", containerd, temporal, name=node.name)
    other.manifests.mkdir(parents=True)
    other.write_configuration()
    for role in ("worker", "poller"):
        assert other.start(role).wait(timeout=PATIENCE) == 4
        assert f"already serves node {node.name}" in other.log(role)


def test_a_runtime_that_goes_away_comes_back(node: TempoletNode) -> None:
    """Pods keep their state, the reason is reported, and work resumes by itself."""
    node.apply(pod_manifest("before"))
    before = node.until_running("before")
    node.containerd.process.stop(within=10)
    try:
        node.apply(pod_manifest("during"))
        runtime = node.root_dir / "tempolet" / "runtime.json"
        node.until(lambda: runtime.exists() and not json.loads(runtime.read_text())["ready"], "the reason told")
        assert node.pod("before") == before
    finally:
        node.containerd.start()
    node.until_running("during")
    after = node.until_running("before")
    assert (after.restarts, after.sandbox_id) == (0, before.sandbox_id)


def test_bad_manifests_are_told_and_touch_no_other_pod(node: TempoletNode) -> None:
    """One clear message each with file and field, while a valid pod runs."""
    bad = {
        "broken.yaml": b"a: [",
        "unknown.json": json.dumps(pod_manifest("unknown", nodeNam="x")).encode(),
        "later.json": json.dumps(pod_manifest("later", resourceClaims=[{"name": "gpu"}])).encode(),
        "bomb.yaml": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(12)),
    }
    for name, data in bad.items():
        (node.manifests / name).write_bytes(data)
    (node.manifests / "folder.yaml").mkdir()
    os.mkfifo(node.manifests / "fifo.yaml")
    node.apply(pod_manifest("good"))
    node.until_running("good")
    refused = node.until(
        lambda: (found := read_refusals(node.root_dir)) and len(found) >= len(bad) + 1 and found, "refusals"
    )
    told = {Path(one.path).name: one.message for one in refused}
    assert "spec.nodeNam" in told["unknown.json"]
    assert "spec.resourceClaims" in told["later.json"]
    assert "a static pod has no source for it" in told["later.json"]
    assert "fifo.yaml" in told
    (node.manifests / "folder.yaml").rmdir()


def test_two_manifests_of_one_name(node: TempoletNode) -> None:
    """The first stays; the second is refused with a message that names the first."""
    node.apply(pod_manifest("twin"))
    first = node.until_running("twin")
    node.apply(pod_manifest("twin", "sleep 1"), file="aaa-twin.json")
    (refusal,) = node.until(lambda: read_refusals(node.root_dir), "the second refused")
    assert refusal.path.endswith("aaa-twin.json")
    assert "twin.json" in refusal.message
    assert node.pod("twin") == first
