"""Does a node on real containerd give a container CPUs that nobody else uses, whatever ends meanwhile?"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import node_workflow_id
from tests.node.hardware.cpus import ALL, CPUS, KEYS, OTHERS, allowed, quotas, whole
from tests.node.operating import described, tempolet, temporal
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.executions import is_open
from workflows.decide.cpus.state_file import STATE_FILE

pytestmark = pytest.mark.skipif(CPUS < 2, reason="one CPU is reserved, and another one is given")


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Start a node with the static policy."""
    with TempoletNode(tmp_path / "node", containerd, temporal, keys=KEYS) as made:
        yield made


def test_a_container_has_its_cpus_alone(node: TempoletNode) -> None:
    """The others give way while it runs, a pod that finds none left is rejected, and a worker that is killed changes nothing."""
    node.apply(pod_manifest("shared"))
    shared = node.until_running("shared")
    assert allowed(node, shared) == ALL
    assert quotas(node, shared)[0] == -1
    node.apply(whole("whole"))
    own = node.until_running("whole")
    assert allowed(node, own) == OTHERS
    assert quotas(node, own) == (-1, -1)
    node.until(lambda: allowed(node, shared) == "0", "the other container gives way")
    node.apply(whole("late", 1))
    late = node.until_pod("late", lambda one: one.phase == "Failed", "nothing is left")
    assert late.reason == "UnexpectedAdmissionError"
    assert late.status["message"] == (
        "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: "
        "requested=1, available=0, which is unexpected"
    )
    on_disk = json.loads((node.root_dir / STATE_FILE).read_text())
    assert (on_disk["policyName"], on_disk["defaultCpuSet"]) == ("static", "0")
    assert on_disk["entries"] == {own.uid: {"main": OTHERS}}
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.apply(pod_manifest("later"))
    assert allowed(node, node.until_running("later")) == "0"
    assert allowed(node, own) == OTHERS
    code, told = tempolet(node, "explain", f"default/whole-{node.name}")
    assert code == 0
    assert f"hardware: container main has CPU {OTHERS} to itself" in told
    node.take_away("whole", "late")
    node.until(lambda: allowed(node, shared) == ALL, "the CPUs are shared again")
    node.apply(whole("next"))
    assert allowed(node, node.until_running("next")) == OTHERS


def test_a_pod_that_is_listed_again_while_it_stops_keeps_its_cpus(node: TempoletNode) -> None:
    """It starts again under its uid, and nobody asks the ledger for it again."""
    manifest = whole("whole")
    manifest["metadata"]["uid"] = "uid-of-its-own"
    manifest["spec"]["containers"][0]["command"] = ["sh", "-c", "trap 'sleep 1; exit 0' TERM; sleep 3600 & wait"]
    node.apply(manifest)
    first = node.until_running("whole")
    node.remove("whole")
    node.until_pod("whole", lambda one: one.deleting, "it stops")
    node.apply(manifest)
    again = node.until_pod("whole", lambda one: one.ready and one.containers != first.containers, "it runs again")
    assert allowed(node, again) == OTHERS
    node.apply(pod_manifest("later"))
    assert allowed(node, node.until_running("later")) == "0"
    assert allowed(node, again) == OTHERS


def test_its_cpus_cannot_be_resized(node: TempoletNode) -> None:
    """In the kubelet's words; the container goes on with what it has."""
    manifest = whole("whole")
    manifest["metadata"] |= {"uid": "uid-of-its-own", "generation": 1}
    node.apply(manifest)
    own = node.until_running("whole")
    amounts = {"cpu": "500m", "memory": "16Mi"}
    manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    manifest["metadata"]["generation"] = 2
    node.apply(manifest)

    def pending(pod: PodSnapshot) -> Any:
        return next((one for one in pod.status["conditions"] if one["type"] == "PodResizePending"), None)

    refused = pending(node.until_pod("whole", pending, "the resize is refused"))
    assert (refused["reason"], refused["message"]) == (
        "Infeasible",
        'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
    )
    assert allowed(node, own) == OTHERS


def test_a_pod_gets_its_cpus_though_somebody_terminates_the_nodes_workflow(node: TempoletNode) -> None:
    """The workflow is started again by the request that does not find it; the CPUs of the pod before are still taken."""
    workflow_id = node_workflow_id(node.name)
    node.apply(whole("first", 1))
    first = node.until_running("first")
    temporal(node, workflow_id, "terminate", "--reason", "by hand")
    node.apply(whole("late"))
    late = node.until_pod("late", lambda one: one.phase == "Failed", "too few are left")
    assert late.reason == "UnexpectedAdmissionError"
    assert is_open(described(node, workflow_id)[1])
    node.take_away("first", "late")
    node.apply(whole("next"))
    assert allowed(node, node.until_running("next")) == OTHERS
    assert first.uid not in json.loads((node.root_dir / STATE_FILE).read_text())["entries"]


def test_a_file_of_version_1_is_read(node: TempoletNode) -> None:
    """It names containers by the runtime's ids."""
    node.apply(whole("whole"))
    own = node.until_running("whole")
    file = node.root_dir / STATE_FILE
    written = file.read_text()
    node.stop("worker")
    (container,) = own.containers.values()
    old = {"policyName": "static", "defaultCpuSet": "0", "entries": {container.container_id: OTHERS}, "checksum": 0}
    file.write_text(json.dumps(old))
    node.start("worker")
    node.until(lambda: file.read_text() == written, "it is written as version 2")
    node.apply(pod_manifest("shared"))
    assert allowed(node, node.until_running("shared")) == "0"
    assert allowed(node, own) == OTHERS


def test_another_policy_does_not_start_on_what_is_on_disk(node: TempoletNode) -> None:
    """The worker says which file is to be removed, in the kubelet's words."""
    node.until((node.root_dir / STATE_FILE).exists, "the state is written")
    node.stop("worker")
    node.keys = {}
    node.write_configuration()
    assert node.start("worker").wait(60) != 0
    assert 'configured policy "none" differs from state checkpoint policy "static", please drain this node' in node.log(
        "worker"
    )
    (node.root_dir / STATE_FILE).unlink()
    node.stop("worker")
    node.start_all()
    node.apply(pod_manifest("shared"))
    node.until_running("shared")
