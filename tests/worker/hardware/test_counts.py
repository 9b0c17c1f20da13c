"""Do the metrics of the CPU, memory and topology managers say what a kubelet's would of the same pods?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from activities.hardware.services import HardwareRefused
from proto.temporal.hardware.ledger import AllocateHardware
from tests.worker.hardware.test_memory_of_nodes import SETTINGS, aligned
from tests.worker.hardware.test_memory_of_nodes import pod as pod_of
from tests.worker.settings.hardware.machines import Shape, machine
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.memory_of_nodes import load_memory
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.cpu_topology import read_topology
from worker.telemetry.kubelet.families import rendered
from worker.telemetry.kubelet.resource_managers import ResourceManagerCounts
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.static_policy import static_policy
from workflows.decide.topology.scopes import TopologyManager

NAMES = {
    "topology_manager_admission_requests_total": "admissions",
    "topology_manager_admission_errors_total": "admission errors",
    "topology_manager_admission_duration_ms_count": "timed",
    "cpu_manager_pinning_requests_total": "cpus",
    "cpu_manager_pinning_errors_total": "cpu errors",
    "cpu_manager_shared_pool_size_millicores": "shared",
    "cpu_manager_exclusive_cpu_allocation_count": "exclusive",
    "memory_manager_pinning_requests_total": "memory",
    "memory_manager_pinning_errors_total": "memory errors",
}
ALIGNED = "kubelet_container_aligned_compute_resources"


class Node:
    """A machine of two NUMA nodes with four CPUs, one cache and 8 GiB each; CPU 0 and 1 GiB are reserved."""

    def __init__(self, folder: Path, topology: TopologyManager, options: Options) -> None:
        self.registry = CollectorRegistry()
        counts = ResourceManagerCounts(self.registry)
        shape = Shape(sockets=2, cores_per_node=2, threads=2)
        policy = static_policy(read_topology(*machine(folder / "machine", shape)), options, 1)
        (root_dir := folder / "node").mkdir()
        cpus = load_cpus(CpuManager(policy), root_dir, counts.cpus)
        memory = load_memory(SETTINGS, root_dir, counts.memory)
        assert cpus
        assert memory
        self.hardware = NodeHardware([cpus, memory], topology, counts.topology)
        self._counting: tuple[str, ...] = ()

    async def admit(self, pod: dict[str, Any]) -> str:
        """Ask for a pod beside those before; returns the reason of a refusal."""
        try:
            await self.hardware.allocate(AllocateHardware(pod, counting=self._counting))
        except HardwareRefused as refused:
            return refused.reason
        self._counting += (pod["metadata"]["uid"],)
        return ""

    def counted(self) -> dict[str, int]:
        """Return what is not 0."""
        found = {word: self.registry.get_sample_value(f"kubelet_{name}") for name, word in NAMES.items()}
        return {word: int(value) for word, value in found.items() if value}

    def boundaries(self) -> dict[str, int]:
        """Return the series of what is aligned and what failed to be."""
        found = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name.startswith(ALIGNED):
                    word = "failed " * ("failure" in sample.name) + " ".join(sample.labels.values())
                    found[word] = int(sample.value)
        return found


Made = Callable[..., Node]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Return what makes a node."""

    def make(policy: str = "none", scope: str = "container", options: Options | None = None) -> Node:
        return Node(tmp_path, aligned(policy, scope), options or Options())

    return make


@pytest.mark.parametrize(
    ("policy", "pods", "refusals", "counted"),
    [
        pytest.param(
            "none",
            [pod_of("a", 1, 1)],
            [""],
            {"admissions": 1, "timed": 1, "cpus": 2, "memory": 2, "shared": 5000, "exclusive": 2},
            id="each-container-is-counted",
        ),
        pytest.param(
            "none",
            [pod_of("a", 1, cpus="9")],
            ["UnexpectedAdmissionError"],
            {"admissions": 1, "timed": 1, "cpus": 1, "cpu errors": 1, "shared": 7000},
            id="no-error-of-the-topology-manager-without-its-policy",
        ),
        pytest.param(
            "best-effort",
            [pod_of("a", 1, cpus="9")],
            ["UnexpectedAdmissionError"],
            {"admissions": 1, "timed": 1, "admission errors": 1, "cpus": 1, "cpu errors": 1, "shared": 7000},
            id="an-error-of-the-topology-manager-with-its-policy",
        ),
        pytest.param(
            "none",
            [pod_of("a", 20)],
            ["UnexpectedAdmissionError"],
            {
                "admissions": 1,
                "timed": 1,
                "cpus": 1,
                "memory": 1,
                "memory errors": 1,
                "shared": 7000,
            },
            id="memory-that-is-not-there",
        ),
        pytest.param(
            "restricted",
            [pod_of("a", 9, cpus="5"), pod_of("b", 1, cpus="1500m")],
            ["", "TopologyAffinityError"],
            {
                "admissions": 2,
                "timed": 2,
                "admission errors": 1,
                "cpus": 1,
                "memory": 1,
                "shared": 2000,
                "exclusive": 5,
            },
            id="what-cannot-be-aligned-asks-nobody",
        ),
        pytest.param(
            "none",
            [pod_of("a", 1), pod_of("a", 1)],
            ["", ""],
            {"admissions": 2, "timed": 2, "cpus": 2, "memory": 2, "shared": 6000, "exclusive": 1},
            id="a-pod-that-has-its-own-is-counted-again",
        ),
        pytest.param(
            "none",
            [pod_of("a", 1, cpus="500m")],
            [""],
            {"admissions": 1, "timed": 1, "memory": 1, "shared": 7000},
            id="parts-of-cpus-are-no-request",
        ),
    ],
)
async def test_requests_and_errors(
    made: Made, policy: str, pods: Sequence[dict[str, Any]], refusals: list[str], counted: dict[str, int]
) -> None:
    """Of each manager, as the kubelet counts them."""
    node = made(policy)
    assert [await node.admit(one) for one in pods] == refusals
    assert node.counted() == counted


@pytest.mark.parametrize(
    ("policy", "scope", "options", "pods", "boundaries"),
    [
        pytest.param(
            "none",
            "container",
            Options(),
            [],
            {"container physical_cpu": 0, "container uncore_cache": 0, "failed container physical_cpu": 0},
            id="no-numa-nodes-without-a-policy",
        ),
        pytest.param(
            "single-numa-node",
            "container",
            Options(),
            [pod_of("a", 1, 1), pod_of("b", 1, cpus="5")],
            {"container numa_node": 2, "container uncore_cache": 2, "failed container numa_node": 1},
            id="each-container-of-one-node",
        ),
        pytest.param(
            "single-numa-node",
            "pod",
            Options(),
            [pod_of("a", 1, 1), pod_of("b", 1, 1, cpus="3")],
            {"pod numa_node": 1, "container uncore_cache": 2, "failed pod numa_node": 1},
            id="each-pod-of-one-node",
        ),
        pytest.param(
            "restricted",
            "container",
            Options(),
            [pod_of("a", 1), pod_of("b", 8, cpus="5")],
            {"container uncore_cache": 1},
            id="only-one-node-guarantees-alignment",
        ),
        pytest.param(
            "none",
            "container",
            Options(full_cores=True),
            [pod_of("a", 1, cpus="2"), pod_of("b", 1), pod_of("a", 1, cpus="2")],
            {"container physical_cpu": 2, "container uncore_cache": 1, "failed container physical_cpu": 1},
            id="full-cores-and-the-cache-once",
        ),
        pytest.param(
            "none",
            "container",
            Options(),
            [pod_of("a", 1, cpus="6")],
            {},
            id="cpus-of-two-caches",
        ),
    ],
)
async def test_what_lies_together(
    made: Made, policy: str, scope: str, options: Options, pods: Sequence[dict[str, Any]], boundaries: dict[str, int]
) -> None:
    """By scope and boundary; a series is there from the start."""
    node = made(policy, scope, options)
    began = node.boundaries()
    assert set(began.values()) == {0}
    for one in pods:
        await node.admit(one)
    if not pods:
        assert began == boundaries
    assert {word: count for word, count in node.boundaries().items() if count} == {
        word: count for word, count in boundaries.items() if count
    }


def test_the_series_are_typed_as_the_kubelets(made: Made) -> None:
    """Counters without `_total`, and its buckets."""
    text = rendered(made("restricted").registry).decode()
    assert f"# TYPE {ALIGNED}_count counter" in text
    assert f'{ALIGNED}_failure_count{{boundary="numa_node",scope="pod"}} 0.0' in text
    assert 'kubelet_topology_manager_admission_duration_ms_bucket{le="0.05"}' in text
    assert 'kubelet_topology_manager_admission_duration_ms_bucket{le="819.2"}' in text
