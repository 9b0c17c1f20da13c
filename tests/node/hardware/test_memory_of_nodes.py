"""Does a node on real containerd give a container memory of a NUMA node, and refuse a pod for which there is none?

These machines have one NUMA node as a rule; two are in tests/worker/hardware, with machines of files.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import runtime_spec
from tests.node.hardware import kept_memory
from tests.node.hardware.cpus import CPUS, KEYS, allowed
from tests.node.hardware.kept_memory import VARIABLE, copy_of_nodes
from tests.node.operating import tempolet
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.settings.hardware.numa_nodes import read_nodes
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from workflows.decide.memory_nodes.state_file import STATE_FILE

FIRST = min(read_nodes().memory)
RESERVED = {
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"memory": "64Mi"},
    "reservedMemory": [{"numaNode": FIRST, "limits": {"memory": "64Mi"}}],
    "topologyManagerPolicy": "single-numa-node",
}


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Start a node with both static policies."""
    keys = {**(KEYS if CPUS > 1 else {}), **RESERVED}
    nodes = copy_of_nodes(tmp_path / "nodes")
    made = TempoletNode(tmp_path / "node", containerd, temporal, keys=keys, release=kept_memory.__name__)
    made.environment[VARIABLE] = str(nodes)
    with made:
        yield made


def pinned(name: str, memory: str, cpu: str = "1") -> dict[str, Any]:
    """Build a guaranteed pod."""
    manifest = pod_manifest(name)
    amounts = {"cpu": cpu, "memory": memory}
    manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return manifest


def test_memory_of_one_node(node: TempoletNode) -> None:
    """It is there after a kill, and free again; a pod that asks for more than any node has is rejected."""
    node.apply(pod_manifest("shared"))
    node.apply(pinned("pinned", "32Mi"))
    shared, pod = node.until_running("shared"), node.until_running("pinned")
    (container,) = pod.containers.values()
    cpu = runtime_spec(node.containerd, container.container_id)["linux"]["resources"]["cpu"]
    assert cpu["mems"] == str(FIRST)
    (other,) = shared.containers.values()
    assert not runtime_spec(node.containerd, other.container_id)["linux"]["resources"]["cpu"].get("mems")
    on_disk = json.loads((node.root_dir / STATE_FILE).read_text())
    assert on_disk["policyName"] == "Static"
    assert on_disk["entries"] == {pod.uid: {"main": [{"numaAffinity": [FIRST], "type": "memory", "size": 32 * 2**20}]}}
    total = sum(one.size for one in read_nodes(Path(node.environment[VARIABLE])).memory.values())
    node.apply(pinned("huge", str(total - 2**20), "100m"))
    huge = node.until_pod("huge", lambda one: one.phase == "Failed", "no node has so much")
    assert huge.reason == "UnexpectedAdmissionError"
    assert huge.status["message"] == (
        "Pod was rejected: Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )
    if CPUS > 1:
        node.apply(pinned("wide", "16Mi", str(CPUS)))
        wide = node.until_pod("wide", lambda one: one.phase == "Failed", "no node has so many CPUs")
        assert wide.reason == "TopologyAffinityError"
        assert wide.status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
        node.take_away("wide")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    code, told = tempolet(node, "explain", f"default/pinned-{node.name}")
    assert code == 0
    assert f"hardware: container main has its memory from NUMA node {FIRST} (32Mi memory)" in told
    if CPUS > 1:
        assert allowed(node, pod) != "0"
    node.take_away("huge", "pinned")
    node.until(
        lambda: not json.loads((node.root_dir / STATE_FILE).read_text()).get("entries"), "the memory is free again"
    )


def test_a_lost_file_is_written_again(node: TempoletNode) -> None:
    """By what the runtime says of the running container; an init container that ended has nothing."""
    manifest = pinned("pinned", "32Mi")
    (main,) = manifest["spec"]["containers"]
    manifest["spec"]["initContainers"] = [{**main, "name": "init", "command": ["true"]}]
    node.apply(manifest)
    pod = node.until_running("pinned")
    node.stop("worker")
    (node.root_dir / STATE_FILE).unlink()
    node.start("worker")
    file = node.root_dir / STATE_FILE
    node.until(file.exists, "it is there again")
    assert json.loads(file.read_text())["entries"] == {
        pod.uid: {"main": [{"numaAffinity": [FIRST], "type": "memory", "size": 32 * 2**20}]}
    }


def test_memory_of_an_init_container_is_free_when_the_next_container_starts(node: TempoletNode) -> None:
    """As with the kubelet, whose AddContainer forgets init containers that ended."""
    manifest = pinned("twice", "32Mi", "100m")
    (main,) = manifest["spec"]["containers"]
    manifest["spec"]["initContainers"] = [{**main, "name": "init", "command": ["true"]}]
    node.apply(manifest)
    pod = node.until_running("twice")
    on_disk = json.loads((node.root_dir / STATE_FILE).read_text())
    assert on_disk["entries"] == {pod.uid: {"main": [{"numaAffinity": [FIRST], "type": "memory", "size": 32 * 2**20}]}}


def test_its_memory_cannot_be_resized_but_its_cpu(
    tmp_path: Path, containerd: Containerd, temporal: TemporalServer
) -> None:
    """Where the CPUs are shared; in the kubelet's words. Its memory stays where it is."""
    nodes = copy_of_nodes(tmp_path / "nodes")
    made = TempoletNode(tmp_path / "node", containerd, temporal, keys=RESERVED, release=kept_memory.__name__)
    made.environment[VARIABLE] = str(nodes)
    with made as node:
        manifest = pinned("pinned", "32Mi", "100m")
        manifest["metadata"] |= {"uid": "uid-of-its-own", "generation": 1}
        node.apply(manifest)
        (container,) = node.until_running("pinned").containers.values()

        def resized(generation: int, memory: str, cpu: str) -> None:
            manifest["spec"]["containers"][0]["resources"] = pinned("pinned", memory, cpu)["spec"]["containers"][0][
                "resources"
            ]
            manifest["metadata"]["generation"] = generation
            node.apply(manifest)

        def cpu_of(pod: PodSnapshot) -> Any:
            return pod.status["containerStatuses"][0]["resources"]["requests"]["cpu"]

        def pending(pod: PodSnapshot) -> Any:
            return next((one for one in pod.status["conditions"] if one["type"] == "PodResizePending"), None)

        resized(2, "32Mi", "200m")
        node.until_pod("pinned", lambda one: cpu_of(one) == "200m", "its CPU is resized")
        resized(3, "48Mi", "200m")
        refused = pending(node.until_pod("pinned", pending, "the resize is refused"))
        assert (refused["reason"], refused["message"]) == (
            "Infeasible",
            'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"',
        )
        assert runtime_spec(node.containerd, container.container_id)["linux"]["resources"]["cpu"]["mems"] == str(FIRST)
        on_disk = json.loads((node.root_dir / STATE_FILE).read_text())
        assert on_disk["entries"]["uid-of-its-own"]["main"][0]["size"] == 32 * 2**20


def test_another_policy_does_not_start_on_what_is_on_disk(node: TempoletNode) -> None:
    """The worker says which file is to be removed, in the kubelet's words."""
    node.until((node.root_dir / STATE_FILE).exists, "the state is written")
    node.stop("worker")
    node.keys = {key: value for key, value in node.keys.items() if key not in RESERVED}
    node.write_configuration()
    assert node.start("worker").wait(60) != 0
    assert (
        '[memorymanager] configured policy "None" differs from state checkpoint policy "Static", please drain this node'
        in node.log("worker")
    )
