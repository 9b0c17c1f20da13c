"""Does a node of a cluster end its pods, and tell the API of it, before its machine goes down, as a kubelet does?"""

import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.temporal.pod import Lifecycle
from tests.cluster.cluster_node import ClusterNode, NewNode, condition, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node.test_measured import samples
from tests.cluster.node.test_pressure import events_of
from tests.cluster.pods.test_status_back import ENDS_WHEN_LET_GO, let_go, until_up
from tests.node.tempolet_node import STARTS_WITHIN, pod_manifest
from tests.worker.host.shutdown.small_logind import SmallLogind, own_logind
from worker.host.shutdown.state_file import read_times

KEYS = {"shutdownGracePeriod": "240s", "shutdownGracePeriodCriticalPods": "120s"}
DEAF = "trap '' TERM; while true; do sleep 1; done"
GRACE = 3
MESSAGE = "Pod was terminated in response to imminent node shutdown."
NOT_YET = 2.0
"""Seconds in which a lock that does not wait for the API would be given up: pods are looked at ten times a second."""


@pytest.fixture
def logind() -> Iterator[SmallLogind]:
    """Return a logind on a bus of its own."""
    with own_logind(timedelta(minutes=10)) as found:
        yield found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane that this file may suspend."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as made:
        yield made


@pytest.fixture
def node(tmp_path: Path, new_node: NewNode, logind: SmallLogind) -> Iterator[ClusterNode]:
    """Run a node that follows this logind."""
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={logind.bus.path}"}
    with new_node(tmp_path / "node", keys=dict(KEYS), environment=environment) as made:
        made.until_ready()
        made.until(logind.held, "the lock is held")
        yield made


def test_a_shutdown_that_is_cancelled(node: ClusterNode, logind: SmallLogind) -> None:
    """Pods end in groups, no pod is admitted, the node is not Ready; after it all is as before, but for the pods that have ended."""
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": GRACE}
    node.run_pod("web", DEAF, **spec)
    node.run_pod("system", DEAF, priorityClassName="system-node-critical", **spec)
    logind.tell(True)
    told = node.api.until(node.path, lambda one: condition(one, "Ready") == "False", "the node is not Ready")
    ready = next(one for one in told["status"]["conditions"] if one["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("KubeletNotReady", "node is shutting down")
    node.create_pod(pod_manifest("late"))
    late = node.until_api_pod("late", lambda pod: pod["status"]["phase"] == "Failed")["status"]
    assert (late["reason"], late["message"]) == (
        "NodeShutdown",
        "Pod was rejected: Pod was rejected as the node is shutting down.",
    )
    node.until(lambda: not logind.held(), "the lock is given up")
    ended = {name: terminated(node, name) for name in ("web", "system")}
    assert ended["system"] - ended["web"] >= timedelta(seconds=GRACE - 1), "they ended together"

    logind.tell(False)
    node.until_ready()
    assert logind.held() == 1
    node.run_pod("after")
    assert {name: terminated(node, name) for name in ended} == ended
    words = [one["message"] for one in node.until(lambda: both_events(node), "both events of the node")]
    assert words == ["Shutdown manager detected shutdown event", "Shutdown manager detected shutdown cancellation"]


def test_the_lock_is_held_until_the_api_has_the_statuses(
    node: ClusterNode, logind: SmallLogind, plane: ControlPlane
) -> None:
    """And the times of the shutdown are in the metrics after the next start."""
    node.run_pod("web", f"trap '{ENDS_WHEN_LET_GO}; exit 1' TERM; echo up; sleep 3600 & wait")
    until_up(node, "web")
    logind.tell(True)
    node.until_pod("web", lambda one: one.lifecycle == Lifecycle.TERMINATING)
    server = json.loads((plane.directory / "kube-apiserver.pid").read_text())["pid"]
    os.kill(server, signal.SIGSTOP)
    try:
        let_go(node, "web")
        node.until_pod("web", lambda one: one.lifecycle == Lifecycle.TERMINATED)
        with pytest.raises(TimeoutError):
            node.until(lambda: not logind.held(), "the lock is given up", NOT_YET)
    finally:
        os.kill(server, signal.SIGCONT)
    node.until(lambda: not logind.held(), "the lock is given up")
    terminated(node, "web")

    times = read_times(node.root_dir)
    assert times.start is not None
    assert times.end is not None
    node.stop("worker")
    node.start("worker")
    node.until(logind.held, "the lock is held again", STARTS_WITHIN)
    shown = node.until(lambda: shutdown_times(node), "the times in the metrics")
    assert shown == [times.start.timestamp() // 1, times.end.timestamp() // 1]


def terminated(node: ClusterNode, name: str) -> datetime:
    """Check that the API has the status of a pod that ended at a shutdown; returns when its container ended."""
    status = node.api.get(pods_path(name=name))["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Terminated", MESSAGE)
    target = next(one for one in status["conditions"] if one["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == ("True", "TerminationByKubelet", MESSAGE)
    return datetime.fromisoformat(status["containerStatuses"][0]["state"]["terminated"]["finishedAt"])


def both_events(node: ClusterNode) -> list[Any]:
    """Return the events of the shutdown and its end, in this order, once there are both."""
    found = sorted(events_of(node, node.name, "Shutdown"), key=lambda one: int(one["metadata"]["resourceVersion"]))
    return found if len(found) > 1 else []


def shutdown_times(node: ClusterNode) -> list[float]:
    """Return begin and end of the last shutdown in the node's metrics; empty while the worker starts."""
    found = samples(node, "/metrics")
    names = [f"kubelet_graceful_shutdown_{one}_time_seconds" for one in ("start", "end")]
    return [found[name][0].value for name in names if name in found]
