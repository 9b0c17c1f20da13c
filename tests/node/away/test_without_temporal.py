"""Does a node go on while Temporal is away, and does its history know afterwards what happened?"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import POD_WORKFLOW
from tests.node.away.stopped_temporal import RETURNED, own_temporal, resume, suspend
from tests.node.containerd_view import container_pid, containers_of
from tests.node.operating import history, tempolet
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node, wait
from worker.commands.show.history import REST_WAITS
from worker.history.while_away import AWAY_STILL
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.executions import list_executions

__all__ = ["own_temporal"]  # a fixture


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with a Temporal of its own."""
    with tempolet_node(tmp_path, containerd, own_temporal, away_after="5s") as made:
        yield made


def kill_container(node: TempoletNode, pod: PodSnapshot) -> None:
    """Kill the main container of a pod."""
    os.kill(container_pid(node.containerd, pod.containers["main"].container_id), signal.SIGKILL)


def until_led(node: TempoletNode, pods: int) -> None:
    """Wait until the worker leads so many pods without Temporal."""
    node.until(lambda: node.log("worker").count("leads a pod without Temporal") >= pods, f"{pods} pods are led")


def until_returned(node: TempoletNode, pods: int) -> None:
    """Wait until so many pods are handed back."""
    node.until(lambda: node.log("worker").count(RETURNED) >= pods, f"{pods} pods are handed back")


def test_pods_are_restarted_started_and_deleted(node: TempoletNode) -> None:
    """Afterwards each has its story, no container was restarted for the return, and Temporal leads again."""
    for name in ("crashes", "deleted", "idle"):
        node.apply(pod_manifest(name))
    crashes, deleted, idle = (node.until_running(name) for name in ("crashes", "deleted", "idle"))
    suspend(node.temporal)
    kill_container(node, crashes)
    node.remove("deleted")
    node.apply(pod_manifest("born"))
    node.until_pod("crashes", lambda one: one.ready and one.restarts == 1)
    node.until_gone("deleted")
    born = node.until_running("born")
    before = {one.id for pod in (crashes, idle, born) for one in containers_of(node.containerd, pod.uid)}
    resume(node.temporal)
    until_returned(node, 4)
    assert {one.id for pod in (crashes, idle, born) for one in containers_of(node.containerd, pod.uid)} == before
    kill_container(node, born)
    node.until_pod("born", lambda one: one.ready and one.restarts == 1)
    told = history(node, crashes)
    assert "while Temporal was away" in told
    assert "exit 137" in told.split("while Temporal was away")[1]
    assert "main" in history(node, deleted).split("while Temporal was away")[1], "how it was stopped"
    assert "while Temporal was away" in history(node, born)


def test_a_pod_that_temporal_had_taken_before_is_started(node: TempoletNode) -> None:
    """Its start was answered, and Temporal went away before the first decision: nobody else would tell the worker of it."""
    node.stop("worker")
    node.apply(pod_manifest("taken"))
    node.until(lambda: wait(pods_in_temporal(node)), "the pod's workflow")
    suspend(node.temporal)
    node.start("worker")
    born = node.until_running("taken")
    before = {one.id for one in containers_of(node.containerd, born.uid)}
    resume(node.temporal)
    until_returned(node, 1)
    assert {one.id for one in containers_of(node.containerd, born.uid)} == before
    kill_container(node, born)
    node.until_pod("taken", lambda one: one.ready and one.restarts == 1)


async def pods_in_temporal(node: TempoletNode) -> list[str]:
    """List the workflows of pods by visibility."""
    return [one.id async for one in list_executions(await node.client(), f"WorkflowType = '{POD_WORKFLOW}'")]


def test_a_worker_that_dies_during_the_outage_goes_on(node: TempoletNode) -> None:
    """What the first one did counts: one restart each, and no container twice."""
    node.apply(pod_manifest("crashes"))
    first = node.until_running("crashes")
    suspend(node.temporal)
    kill_container(node, first)
    second = node.until_pod("crashes", lambda one: one.ready and one.restarts == 1)
    node.stop("worker", signal.SIGKILL)
    node.apply(pod_manifest("born"))
    node.start("worker")
    node.until_running("born")
    kill_container(node, second)
    third = node.until_pod("crashes", lambda one: one.restarts == 2)
    resume(node.temporal)
    until_returned(node, 2)
    last = node.until_running("crashes")
    assert (last.restarts, last.sandbox_id) == (2, first.sandbox_id)
    assert third.uid == first.uid
    told = history(node, first)
    assert told.count("exit 137") >= 2, told


def test_commands_work_without_temporal(node: TempoletNode) -> None:
    """Those that only read, and those that change a pod."""
    node.apply(pod_manifest("stays", "while true; do echo said; sleep 1; done"))
    pod = node.until_running("stays")
    suspend(node.temporal)
    kill_container(node, pod)
    until_led(node, 1)
    code, said = tempolet(node, "pods")
    assert "Temporal is away since" in said
    assert "this node leads 1 pod itself" in said
    assert code == 0, said
    assert "stays" in said
    code, said = tempolet(node, "explain", f"default/{pod.name}")
    assert code == 0, said
    code, said = tempolet(node, "logs", "--config", str(node.directory / "kubelet.json"), f"default/{pod.name}")
    assert code == 0, said
    node.until(lambda: "exit 137" in history(node, pod), "the history tells how the container ended")
    told = history(node, pod)
    assert AWAY_STILL in told
    assert told.splitlines()[-1] == REST_WAITS
    code, said = tempolet(node, "evict", f"default/{pod.name}")
    assert code == 0, said
    resume(node.temporal)
    until_returned(node, 1)
