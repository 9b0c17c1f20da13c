"""What does a pod notice of an operator's hand in Temporal: terminate, delete, cancel, reset, pause, of its workflow or the node's?

By Temporal's own command line, as an operator does it; the UI makes the same calls. No container may be started again, its
probes go on, and nothing is left afterwards.
"""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import NAMESPACE, PodWorkflowId, node_workflow_id
from tests.free_ports import free_ports
from tests.node.containerd_view import containers_of, sandboxes_of
from tests.node.operating import described, tempolet, temporal
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node
from worker.standalone import temporal_server
from worker.standalone.containerd import Containerd
from worker.standalone.machine import programs
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.executions import is_open

RESET: Final = ("reset", "--reason", "a test", "--type")
HANDS: Final = {
    "terminated": ("terminate",),
    "deleted": ("delete", "--yes"),
    "cancelled": ("cancel",),
    "reset-to-its-first-task": (*RESET, "FirstWorkflowTask"),
    "reset-to-its-last-task": (*RESET, "LastWorkflowTask"),
    "paused-and-unpaused": ("pause",),
}
READY: Final = {"exec": {"command": ["cat", "/tmp/ok"]}, "periodSeconds": 1, "failureThreshold": 1}


@pytest.fixture(scope="module")
def pausing_temporal(node_dir: Path) -> Iterator[TemporalServer]:
    """Run a Temporal that can pause workflows, which is not on by default."""
    with pytest.MonkeyPatch.context() as patch:
        settings = (*temporal_server.DYNAMIC_CONFIG, "frontend.WorkflowPauseEnabled=true")
        patch.setattr(temporal_server, "DYNAMIC_CONFIG", settings)
        with TemporalServer(node_dir / "pausing", node_dir / "pausing-run", free_ports(1)[0]) as server:
            yield server


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, pausing_temporal: TemporalServer
) -> Iterator[TempoletNode]:
    """Run a node with a pod for each row; visibility is compared every second instead of every minute."""
    keys = {"syncFrequency": "1s"}
    with tempolet_node(tmp_path_factory.mktemp("node"), containerd, pausing_temporal, keys=keys) as made:
        for name in HANDS:
            manifest = pod_manifest(name, "touch /tmp/ok; sleep 3600")
            manifest["spec"]["containers"][0]["readinessProbe"] = READY
            made.apply(manifest)
        for name in HANDS:
            made.until_running(name)
        yield made


def run_inside(node: TempoletNode, container_id: str, *command: str) -> None:
    """Run a command in a container."""
    with grpc.insecure_channel(node.containerd.endpoint) as channel:
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=10)
        assert api_pb2_grpc.RuntimeServiceStub(channel).ExecSync(request).exit_code == 0


def unready_and_ready_again(node: TempoletNode, name: str, container_id: str) -> None:
    """Check that the pod's probe still reaches its status."""
    run_inside(node, container_id, "rm", "/tmp/ok")
    node.until_pod(name, lambda one: not one.ready, "its probe fails")
    run_inside(node, container_id, "touch", "/tmp/ok")
    node.until_pod(name, lambda one: one.ready, "its probe succeeds")


def same_containers(node: TempoletNode, before: PodSnapshot) -> bool:
    """Report whether the pod has the containers that it had."""
    ids = {one.container_id for one in before.containers.values()}
    return {one.id for one in containers_of(node.containerd, before.uid)} == ids


@pytest.mark.parametrize("hand", HANDS)
def test_a_pods_workflow(node: TempoletNode, hand: str) -> None:
    """Its containers run on; its status follows again; its deletion leaves nothing."""
    before = node.until_running(hand)
    workflow_id = str(PodWorkflowId(node.name, "default", before.name, before.uid))
    run_id, _ = described(node, workflow_id)
    temporal(node, workflow_id, *HANDS[hand])
    if hand == "paused-and-unpaused":
        node.until(
            lambda: "WorkflowPaused: its workflow was paused by" in tempolet(node, "pods")[1], "the pause is told"
        )
        _, said = tempolet(node, "explain", f"default/{before.name}")
        assert "its workflow was paused by" in said
        temporal(node, workflow_id, "unpause")
        node.until(lambda: "WorkflowPaused" not in tempolet(node, "pods")[1], "its end is told")
    if hand not in {"cancelled", "paused-and-unpaused"}:
        node.until(lambda: described(node, workflow_id)[0] not in {"", run_id}, "another run")
    node.until(lambda: is_open(described(node, workflow_id)[1]), "an open run")
    unready_and_ready_again(node, hand, before.containers["main"].container_id)
    assert same_containers(node, before)
    assert node.until_running(hand).restarts == 0
    node.take_away(hand)
    assert containers_of(node.containerd, before.uid) == []
    assert sandboxes_of(node.containerd, before.uid) == []
    node.until(lambda: not is_open(described(node, workflow_id)[1]), "its workflow is closed")


@pytest.mark.parametrize("hand", HANDS)
def test_the_nodes_workflow(node: TempoletNode, hand: str) -> None:
    """It is open again, and no pod notices."""
    manifest = pod_manifest("beside")
    node.apply(manifest)
    beside = node.until_running("beside")
    workflow_id = node_workflow_id(node.name)
    node.until(lambda: is_open(described(node, workflow_id)[1]) and described(node, workflow_id)[0], "it is open")
    run_id, _ = described(node, workflow_id)
    temporal(node, workflow_id, *HANDS[hand])
    if hand == "paused-and-unpaused":
        node.until(
            lambda: "WorkflowPaused: its workflow was paused by" in tempolet(node, "pods")[1], "the pause is told"
        )
        temporal(node, workflow_id, "unpause")
    elif hand != "cancelled":
        node.until(lambda: described(node, workflow_id)[0] not in {"", run_id}, "another run")
    node.until(lambda: is_open(described(node, workflow_id)[1]), "an open run")
    assert same_containers(node, beside)
    assert tempolet(node, "images")[0] == 0
    node.take_away("beside")


def test_a_paused_probe(node: TempoletNode) -> None:
    """It is told; the container's next instance is probed all the same, by an activity of its own."""
    manifest = pod_manifest("probed", "touch /tmp/ok; sleep 3600")
    manifest["spec"]["containers"][0]["readinessProbe"] = READY
    node.apply(manifest)
    before = node.until_running("probed")
    workflow_id = str(PodWorkflowId(node.name, "default", before.name, before.uid))
    program = programs.find_program(programs.TEMPORAL)
    place = ["--address", node.temporal.address, "--namespace", NAMESPACE, "--workflow-id", workflow_id]
    words = ["activity", "pause", "--activity-id", "probe/main", *place]
    ran = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    node.until(
        lambda: "ActivityPaused: the activity probe/main is paused by" in tempolet(node, "pods")[1], "it is told"
    )
    _, said = tempolet(node, "explain", f"default/{before.name}")
    assert "paused by" in said
    node.stop("worker", signal.SIGKILL)  # the next one does not continue a paused attempt
    node.start("worker")
    with grpc.insecure_channel(node.containerd.endpoint) as channel:
        runtime = api_pb2_grpc.RuntimeServiceStub(channel)
        runtime.StopContainer(cri.StopContainerRequest(container_id=before.containers["main"].container_id, timeout=0))
    again = node.until_pod("probed", lambda one: one.restarts == 1 and one.ready, "the next instance runs")
    unready_and_ready_again(node, "probed", again.containers["main"].container_id)
    node.until(lambda: "ActivityPaused" not in tempolet(node, "pods")[1], "it is over")
    node.take_away("probed")
