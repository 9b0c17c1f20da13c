"""Does a node lose nothing when Temporal comes back with an empty database, or with an older one?"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.away import databases
from tests.node.away.stopped_temporal import RETURNED, own_temporal, server_pid
from tests.node.away.test_without_temporal import kill_container, until_returned
from tests.node.conftest import QUICK
from tests.node.containerd_view import containers_of
from tests.node.operating import history
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalFailed, TemporalServer

__all__ = ["own_temporal"]  # a fixture
SETTLED = "compared this node's pods with Temporal"


@pytest.fixture
def node(
    tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer, request: pytest.FixtureRequest
) -> Iterator[TempoletNode]:
    """Run a node with a Temporal of its own, which no slowness of the machine makes an outage, and with a test's keys."""
    with tempolet_node(tmp_path, containerd, own_temporal, keys={**QUICK, **getattr(request, "param", {})}) as made:
        yield made


class Hooked:
    """A pod whose hook counts itself in a folder of the host."""

    def __init__(self, node: TempoletNode, name: str) -> None:
        self.node, self.name = node, name
        self.folder = node.directory / f"hooks-{name}"
        self.folder.mkdir()

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        made = pod_manifest(self.name, volumes=[{"name": "hooks", "hostPath": {"path": str(self.folder)}}])
        container = made["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "hooks", "mountPath": "/hooks"}]
        container["lifecycle"] = {"postStart": {"exec": {"command": ["sh", "-c", "echo run >> /hooks/runs"]}}}
        return made

    def hooks(self) -> int:
        """Count the runs of the hook."""
        runs = self.folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def runs_after(self, restarts: int) -> PodSnapshot:
        """Wait until it is ready after so many restarts."""
        return self.node.until_pod(self.name, lambda one: one.ready and one.restarts == restarts)

    def crashes(self, restarts: int) -> PodSnapshot:
        """Kill its container, and wait until it runs again."""
        kill_container(self.node, self.runs_after(restarts - 1))
        return self.runs_after(restarts)


def stop(node: TempoletNode) -> None:
    """Stop everything but the pods."""
    for role in reversed(node.roles):
        node.stop(role)
    node.temporal.stop()


def start(node: TempoletNode) -> None:
    """Start everything, and wait until the worker knows what Temporal has."""
    before = node.log("worker").count(SETTLED)
    node.temporal.start()
    node.start_all()
    node.until(lambda: node.log("worker").count(SETTLED) > before, "it is settled what Temporal has")


def ids(node: TempoletNode, *pods: PodSnapshot) -> set[str]:
    """Return the ids of all containers of these pods: those that have ended are removed some time later."""
    return {one.id for pod in pods for one in containers_of(node.containerd, pod.uid)}


def running(*pods: PodSnapshot) -> list[str]:
    """Return the ids of the containers that run."""
    return [one.containers["main"].container_id for one in pods]


def test_a_database_that_was_damaged_and_then_deleted(node: TempoletNode) -> None:
    """Nothing of a pod begins anew: no hook, no container, no count. Its history says that Temporal was away."""
    pod = Hooked(node, "web")
    node.apply(pod.manifest())
    node.apply(pod_manifest("goes"))
    lived, goes = pod.crashes(1), node.until_running("goes")
    before = ids(node, lived)
    stop(node)
    databases.damage(node.temporal)
    with pytest.raises(TemporalFailed, match=r"Move .* away and start again"):
        node.temporal.start()
    databases.delete(node.temporal)
    node.remove("goes")
    start(node)
    until_returned(node, 2)
    node.until_gone("goes")
    after = pod.runs_after(1)
    assert (running(after), pod.hooks()) == (running(lived), 2)
    assert ids(node, after) <= before
    assert not ids(node, goes)
    assert "while Temporal was away" in history(node, after)
    pod.crashes(2)
    assert pod.hooks() == 3
    assert "exit 137" in history(node, after).split("while Temporal was away")[1]


def test_a_database_from_before(node: TempoletNode, tmp_path: Path) -> None:
    """It knows one pod as it was three restarts ago, and another one not at all; one that is gone does not come back."""
    old, young = Hooked(node, "old"), Hooked(node, "young")
    node.apply(old.manifest())
    node.apply(pod_manifest("gone"))
    old.runs_after(0)
    node.until_running("gone")
    stop(node)
    copied = databases.copy(node.temporal, tmp_path / "copy")
    start(node)
    assert RETURNED not in node.log("worker"), "the same database is no outage"
    node.apply(young.manifest())
    node.take_away("gone")
    lived = [old.crashes(restarts) for restarts in (1, 2, 3)][-1], young.crashes(1)
    before = ids(node, *lived)
    stop(node)
    databases.put_back(node.temporal, copied)
    start(node)
    until_returned(node, 2)
    after = old.runs_after(3), young.runs_after(1)
    assert (running(*after), old.hooks(), young.hooks()) == (running(*lived), 4, 2)
    assert ids(node, *after) <= before
    assert [one.sandbox_id for one in after] == [one.sandbox_id for one in lived]
    old.crashes(4)
    assert (old.hooks(), young.hooks()) == (5, 2)
    assert "while Temporal was away" in history(node, after[0])
    assert node.pod("gone") is None


def test_a_temporal_that_is_killed_and_has_lost_its_last_commits(node: TempoletNode, tmp_path: Path) -> None:
    """Under a worker and a poller that go on: for them it is a lost connection, and nothing was due."""
    pod = Hooked(node, "web")
    node.apply(pod.manifest())
    pod.crashes(1)
    stop(node)
    copied = databases.copy(node.temporal, tmp_path / "copy")
    start(node)
    lived = pod.crashes(2)
    before, compared = ids(node, lived), node.log("worker").count(SETTLED)
    os.kill(server_pid(node.temporal), signal.SIGKILL)
    node.temporal.stop()
    databases.put_back(node.temporal, copied)
    node.temporal.start()
    node.until(lambda: node.log("worker").count(SETTLED) > compared, "it is settled what Temporal has")
    until_returned(node, 1)
    after = pod.runs_after(2)
    assert (running(after), pod.hooks()) == (running(lived), 3)
    assert ids(node, after) <= before
    pod.crashes(3)
    assert pod.hooks() == 4
    assert "while Temporal was away" in history(node, after)


@pytest.mark.parametrize("node", [pytest.param({"syncFrequency": "1s"}, id="compares-often")], indirect=True)
def test_a_workflow_that_was_terminated_while_the_worker_was_stopped(node: TempoletNode) -> None:
    """Nobody has told the node; it finds out, leads the pod in no outage, and removes it, for no source lists it."""
    node.apply(pod_manifest("ended"))
    pod = node.until_running("ended")
    kept = node.root_dir / "tempolet" / "away" / pod.uid
    node.until((kept / "state").exists, "its state is kept")
    for role in reversed(node.roles):
        node.stop(role)
    wait(terminated(node, pod))
    node.remove("ended")
    start(node)
    node.until(lambda: not kept.exists(), "it is forgotten")
    assert "leads a pod without Temporal" not in node.log("worker")
    node.until_gone("ended")
    node.until(lambda: not ids(node, pod), "its containers are gone")


async def terminated(node: TempoletNode, pod: PodSnapshot) -> None:
    """Terminate a pod's workflow, as an operator does."""
    await (await node.workflow(pod)).terminate("by an operator")
