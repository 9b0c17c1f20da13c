"""Does a node go on with its pods after a switch to a release that cannot replay their histories?"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.temporal import names
from tests.node.containerd_view import container_pid, containers_of
from tests.node.operating import history, tempolet
from tests.node.tempolet_node import RELEASE, TempoletNode, pod_manifest, tempolet_node, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

ANOTHER = "tests.node.upgrades.another_release"
DIFFERS = "leads a pod whose history does not replay"
REPLAYED = "replayed open histories"


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node of a release whose histories today's code does not replay."""
    with tempolet_node(tmp_path, containerd, temporal, release=ANOTHER) as made:
        yield made


def test_pods_whose_histories_differ_go_on(node: TempoletNode) -> None:
    """Another run takes the place of each at once; no container is restarted, and a later start replays nothing."""
    node.apply(pod_manifest("web"))
    node.apply(pod_manifest("over", "exit 0", restartPolicy="Never"))
    web, over = node.until_running("web"), node.until_pod("over", lambda one: one.phase == "Succeeded")
    pids = [container_pid(node.containerd, one.id) for one in containers_of(node.containerd, web.uid)]
    first = wait(node.workflow(web))
    node.stop("worker")
    node.release = RELEASE
    node.start("worker")
    node.until(lambda: node.log("worker").count("handed a pod back to Temporal") == 2, "both pods are handed back")
    assert node.log("worker").count(DIFFERS) == 2
    assert [container_pid(node.containerd, one.id) for one in containers_of(node.containerd, web.uid)] == pids
    assert "because the run before could not take it back" in history(node, web)
    os.kill(pids[0], signal.SIGKILL)
    node.until_pod("web", lambda one: one.ready and one.restarts == 1)
    newest = wait(first.describe())
    assert wait(first.query(names.POD_STATUS))["phase"] == "Running"
    node.stop("worker")
    replays = node.log("worker").count(REPLAYED)
    node.start("worker")
    node.until(lambda: node.log("worker").count("worker started") == 3, "the worker runs again")
    assert node.log("worker").count(REPLAYED) == replays
    assert wait(first.describe()).run_id == newest.run_id
    assert tempolet(node, "replay", "--live")[0] == 0
    node.take_away("web", "over")
    assert not containers_of(node.containerd, over.uid)
