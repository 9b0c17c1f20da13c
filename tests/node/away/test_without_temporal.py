"""Does a node go on while Temporal is away, and does its history know afterwards what happened?"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.away.stopped_temporal import own_temporal, resume, suspend
from tests.node.containerd_view import container_pid, containers_of
from tests.node.pod_story import story
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]
OUTAGE = 120.0
"""Seconds in which something must have happened although Temporal is away."""


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with a Temporal of its own."""
    with tempolet_node(tmp_path, containerd, own_temporal) as made:
        yield made


def test_pods_are_restarted_started_and_deleted(node: TempoletNode) -> None:
    """And afterwards each has its story, and no container was restarted for the return."""
    for name in ("crashes", "deleted", "idle"):
        node.apply(pod_manifest(name))
    crashes, deleted, idle = (node.until_running(name) for name in ("crashes", "deleted", "idle"))
    suspend(node.temporal)
    os.kill(container_pid(node.containerd, crashes.containers["main"].container_id), signal.SIGKILL)
    node.remove("deleted")
    node.apply(pod_manifest("born"))
    node.until_pod("crashes", lambda one: one.ready and one.restarts == 1)
    node.until_gone("deleted", patience=OUTAGE)
    born = node.until_running("born")
    before = {one.id for pod in (crashes, idle, born) for one in containers_of(node.containerd, pod.uid)}
    resume(node.temporal)
    node.until(lambda: node.log("worker").count("handed a pod back to Temporal") == 4, "every pod handed back")
    os.kill(container_pid(node.containerd, node.until_running("born").containers["main"].container_id), signal.SIGKILL)
    node.until_pod("born", lambda one: one.ready and one.restarts == 1)
    after = {one.id for pod in (crashes, idle) for one in containers_of(node.containerd, pod.uid)}
    assert after <= before
    said = "\n".join(story(node, node.until_running("crashes")))
    assert "while Temporal was away" in said
    assert "start main, restart 1" in said or "restart" in said
    assert deleted.uid != born.uid
