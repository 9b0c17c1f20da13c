"""Do the pods of a node on containerd end in groups when logind tells of a shutdown, and do static ones begin again after it?"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle
from tests.node.away.stopped_temporal import own_temporal, resume, suspend
from tests.node.containerd_view import containers_of
from tests.node.operating import history
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node
from tests.worker.host.shutdown.small_logind import SmallLogind, own_logind
from worker.host.shutdown.ending import mounted
from worker.machine.shutdown_sign import ShutdownSign
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture
KEYS = {"shutdownGracePeriod": "40s", "shutdownGracePeriodCriticalPods": "20s"}
DEAF = "trap '' TERM; while true; do sleep 1; done"
MESSAGE = "Pod was terminated in response to imminent node shutdown."


@pytest.fixture
def logind() -> Iterator[SmallLogind]:
    """Return a logind on a bus of its own."""
    with own_logind(timedelta(minutes=10)) as found:
        yield found


@pytest.fixture
def node(
    tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer, logind: SmallLogind
) -> Iterator[TempoletNode]:
    """Run a node with a Temporal of its own that follows this logind."""
    with tempolet_node(tmp_path, containerd, own_temporal, keys=dict(KEYS), away_after="5s") as made:
        made.stop("worker")
        made.environment = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={logind.bus.path}"}
        made.start("worker")
        made.until(logind.held, "the lock is held")
        yield made


def ended_at(node: TempoletNode, name: str) -> datetime:
    """Return when the main container of a pod ended."""
    now = node.pod(name)
    assert now is not None
    return datetime.fromisoformat(now.status["containerStatuses"][0]["state"]["terminated"]["finishedAt"])


def has_failed(pod: PodSnapshot) -> bool:
    """Report whether a pod has ended as at a shutdown."""
    return (pod.phase, pod.reason, pod.message) == ("Failed", "Terminated", MESSAGE)


def test_pods_end_in_groups_and_begin_again(node: TempoletNode, logind: SmallLogind) -> None:
    """Usual ones first, critical ones when nothing of them is left; the lock is given up last."""
    node.apply(pod_manifest("web", volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}]))
    node.apply(pod_manifest("deaf", DEAF, terminationGracePeriodSeconds=3))
    node.apply(pod_manifest("system", DEAF, priorityClassName="system-node-critical"))
    pods = {name: node.until_running(name) for name in ("web", "deaf", "system")}
    logind.tell(True)
    node.until(lambda: not logind.held(), "the lock is given up")
    for name in pods:
        assert has_failed(node.until_pod(name, lambda one: one.lifecycle == Lifecycle.TERMINATED))
    assert not mounted(node.root_dir, [one.uid for one in pods.values()])
    assert ended_at(node, "web") <= ended_at(node, "deaf") <= ended_at(node, "system")
    found = node.pod("system")
    assert found is not None
    target = [one for one in found.status["conditions"] if one["type"] == "DisruptionTarget"]
    assert [(one["status"], one["reason"], one["message"]) for one in target] == [
        ("True", "TerminationByKubelet", MESSAGE)
    ]
    assert f"operator node shutdown evicted the pod: Terminated: {MESSAGE}" in history(node, found)
    assert ShutdownSign(node.root_dir / "tempolet").is_set()

    node.apply(pod_manifest("late"))
    node.until_pod("late", lambda one: (one.phase, one.reason) == ("Failed", "NodeShutdown"))
    assert containers_of(node.containerd, found.uid)[0].state != 1
    logind.tell(False)
    for name in ("web", "deaf", "system", "late"):
        node.until_running(name)
    assert logind.held() == 1


def test_pods_end_while_temporal_is_away(node: TempoletNode, logind: SmallLogind) -> None:
    """The worker ends them, and Temporal is told afterwards."""
    node.apply(pod_manifest("web"))
    node.apply(pod_manifest("system", priorityClassName="system-cluster-critical"))
    for name in ("web", "system"):
        node.until_running(name)
    suspend(node.temporal)
    try:
        logind.tell(True)
        node.until(lambda: not logind.held(), "the lock is given up")
        for name in ("web", "system"):
            assert has_failed(node.until_pod(name, lambda one: one.lifecycle == Lifecycle.TERMINATED))
    finally:
        resume(node.temporal)
    logind.tell(False)
    for name in ("web", "system"):
        node.until_running(name)
