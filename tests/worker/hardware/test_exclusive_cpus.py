"""Are CPUs given to one container alone, kept on disk as a kubelet keeps them, and free again?"""

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from activities.hardware.services import HardwareRefused
from proto.temporal.hardware.ledger import AllocateHardware, ContainerAssignment, PodAssignment
from tests.worker.settings.hardware.machines import Shape, machine
from worker.hardware.exclusive_cpus import ExclusiveCpus, load_cpus
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.cpu_topology import read_topology
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.telemetry.kubelet.resource_managers import ResourceManagerCounts
from workflows.decide.cpus.cpu_sets import written_cpus
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.state_file import STATE_FILE
from workflows.decide.cpus.static_policy import static_policy


@pytest.fixture
def settings(tmp_path: Path) -> CpuManager:
    """Configure a machine of four cores with one reserved CPU."""
    topology = read_topology(*machine(tmp_path / "machine", Shape(cores_per_node=4)))
    return CpuManager(static_policy(topology, Options(), 1))


@pytest.fixture
def root_dir(tmp_path: Path) -> Path:
    """Return a node's folder."""
    (folder := tmp_path / "node").mkdir()
    return folder


def loaded(settings: CpuManager, root_dir: Path) -> ExclusiveCpus:
    """Load what is on disk."""
    found = load_cpus(settings, root_dir)
    assert found is not None
    return found


def pod(uid: str, *cpus: int) -> dict[str, Any]:
    """Build a pod whose containers c0, c1, … ask for so many CPUs."""
    amounts = [{"cpu": str(one), "memory": "1Mi"} for one in cpus]
    containers = [
        {"name": f"c{number}", "resources": {"requests": one, "limits": one}} for number, one in enumerate(amounts)
    ]
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {"containers": containers}}


def on_disk(root_dir: Path) -> tuple[str, Any]:
    """Read the kubelet's file."""
    content = json.loads((root_dir / STATE_FILE).read_text())
    return content["defaultCpuSet"], content.get("entries", {})


async def test_cpus_are_given_and_written_before_the_answer(settings: CpuManager, root_dir: Path) -> None:
    """Each container has its own; all others share the rest, with the reserved one."""
    hardware = NodeHardware([loaded(settings, root_dir)])
    assert on_disk(root_dir) == ("0-3", {})
    given = await hardware.allocate(AllocateHardware(pod("a", 1, 2)))
    assert given.containers == {"c0": ContainerAssignment("1"), "c1": ContainerAssignment("2-3")}
    assert "CPU 1 to itself (NUMA node 0, socket 0)" in given.why[0]
    assert "asks for 1 whole CPU; 0 is shared" in given.why[0]
    assert "CPU 2-3 to itself (NUMA node 0, socket 0)" in given.why[1]
    assert "asks for 2 whole CPUs; 0 is shared" in given.why[1]
    assert on_disk(root_dir) == ("0", {"a": {"c0": "1", "c1": "2-3"}})
    assert hardware.of("a", "c1").cpuset_cpus == "2-3"
    assert hardware.of("a", "c1").is_quota_off
    assert hardware.is_quota_off("a")
    assert hardware.of("other", "c").cpuset_cpus == "0"
    assert not hardware.of("other", "c").is_quota_off
    assert not hardware.is_quota_off("other")


async def test_an_activity_that_runs_twice_gives_the_same(settings: CpuManager, root_dir: Path) -> None:
    """Also in the next worker, and though the ledger has nothing of it yet."""
    first = await NodeHardware([loaded(settings, root_dir)]).allocate(AllocateHardware(pod("a", 1)))
    again = NodeHardware([loaded(settings, root_dir)])
    assert await again.allocate(AllocateHardware(pod("a", 1))) == first
    other = await again.allocate(AllocateHardware(pod("b", 1), counting=("a",)))
    assert other.containers["c0"].cpus == "2"


async def test_what_the_ledger_says_counts(settings: CpuManager, root_dir: Path) -> None:
    """A file that was lost is made anew, and what only the file has of pods that do not count is free."""
    hardware = NodeHardware([loaded(settings, root_dir)])
    await hardware.allocate(AllocateHardware(pod("gone", 1)))
    ledger = {"a": PodAssignment("default", "a", {"c0": ContainerAssignment("1")})}
    given = await hardware.allocate(AllocateHardware(pod("b", 2), ledger, ("a",)))
    assert given.containers["c0"].cpus == "2-3"
    assert on_disk(root_dir) == ("0", {"a": {"c0": "1"}, "b": {"c0": "2-3"}})


@pytest.mark.parametrize(
    ("given", "left"),
    [
        pytest.param("1", {}, id="reserved-now"),
        pytest.param("1-2", {"a": {"c0": "2"}}, id="one-of-two-is-reserved-now"),
        pytest.param("2,7", {"a": {"c0": "2"}}, id="one-is-offline-now"),
    ],
)
async def test_cpus_that_nobody_may_have_any_more(
    settings: CpuManager, root_dir: Path, given: str, left: dict[str, dict[str, str]]
) -> None:
    """The ledger outlives the file that was deleted for other reservations; the node starts a second time, too."""
    assert settings.static is not None
    more = CpuManager(static_policy(settings.static.topology, Options(), 2))
    ledger = {"a": PodAssignment("default", "a", {"c0": ContainerAssignment(given)})}
    hardware = NodeHardware([loaded(more, root_dir)])
    answer = await hardware.allocate(AllocateHardware(pod("b", 1), ledger, ("a",)))
    cpus = answer.containers["c0"].cpus
    assert cpus in {"2", "3"} - {left.get("a", {}).get("c0")}
    assert on_disk(root_dir)[1] == left | {"b": {"c0": cpus}}
    assert loaded(more, root_dir).known.of("b", "c0") == frozenset({int(cpus)})


async def test_a_pod_that_is_refused_halfway_leaves_nothing(settings: CpuManager, root_dir: Path) -> None:
    """In the kubelet's words."""
    hardware = NodeHardware([loaded(settings, root_dir)])
    with pytest.raises(HardwareRefused) as refused:
        await hardware.allocate(AllocateHardware(pod("a", 2, 2)))
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert str(refused.value) == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=2, available=1, which is unexpected"
    )
    assert on_disk(root_dir) == ("0-3", {})


async def test_released_cpus_are_shared_again(settings: CpuManager, root_dir: Path) -> None:
    """And told."""
    hardware, told = NodeHardware([loaded(settings, root_dir)]), list[str]()
    await hardware.allocate(AllocateHardware(pod("a", 2)))
    hardware.changed = lambda: told.append(hardware.of("other", "c").cpuset_cpus)
    await hardware.release({"a", "unknown"})
    await hardware.release({"a"})
    assert told == ["0-3"]
    assert on_disk(root_dir) == ("0-3", {})


async def test_cpus_that_are_free_again_are_counted(settings: CpuManager, root_dir: Path) -> None:
    """As by the kubelet: what is left, and what is given of each NUMA node."""
    counts = ResourceManagerCounts(registry := CollectorRegistry())
    cpus = load_cpus(settings, root_dir, counts.cpus)
    assert cpus is not None
    hardware, shown = NodeHardware([cpus]), list[tuple[float | None, float | None]]()

    def look() -> None:
        names = ("shared_pool_size_millicores", "exclusive_cpu_allocation_count")
        left, given = (registry.get_sample_value(f"kubelet_cpu_manager_{one}") for one in names)
        assert given == registry.get_sample_value("kubelet_cpu_manager_allocation_per_numa", {"numa_node": "0"})
        shown.append((left, given))

    look()
    await hardware.allocate(AllocateHardware(pod("a", 2)))
    look()
    await hardware.release({"a"})
    look()
    assert shown == [(3000, 0), (1000, 2), (3000, 0)]


def test_a_node_without_the_policy_writes_the_kubelets_file(root_dir: Path) -> None:
    """So that a kubelet, and a later policy, find what they would have left."""
    assert load_cpus(CpuManager(), root_dir) is None
    assert json.loads((root_dir / STATE_FILE).read_text()) == {
        "policyName": "none",
        "defaultCpuSet": "",
        "checksum": 1353318690,
    }


def test_another_policy_refuses_the_start(settings: CpuManager, root_dir: Path) -> None:
    """In the kubelet's words."""
    load_cpus(CpuManager(), root_dir)
    with pytest.raises(ConfigurationRefused) as refused:
        load_cpus(settings, root_dir)
    assert str(refused.value) == (
        'start cpu manager error: could not restore state from checkpoint: configured policy "static" differs from state '
        'checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file '
        f'"{root_dir / STATE_FILE}" before restarting Kubelet'
        f'; a node of "tempolet up": run "tempolet down", delete {root_dir / STATE_FILE}, and run "tempolet up" again'
    )


def test_another_machine_refuses_the_start(settings: CpuManager, root_dir: Path, tmp_path: Path) -> None:
    """Its CPUs are not those of the file."""
    load_cpus(settings, root_dir)
    topology = read_topology(*machine(tmp_path / "larger", Shape(cores_per_node=8)))
    with pytest.raises(
        ConfigurationRefused, match='current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-3"'
    ):
        load_cpus(CpuManager(static_policy(topology, Options(), 1)), root_dir)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(
            b'{"policyName":"static","defaultCpuSet":"0-3","checksum":1}', "checkpoint is corrupted", id="wrong-sum"
        ),
        pytest.param(b"\xff", "no content of a cpu_manager_state: not text", id="no-text"),
        pytest.param(b"[" * 100_000, "not JSON that can be read", id="deeply-nested"),
    ],
)
def test_a_damaged_file_refuses_the_start(settings: CpuManager, root_dir: Path, content: bytes, why: str) -> None:
    """Nobody guesses who had which CPUs."""
    (root_dir / STATE_FILE).write_bytes(content)
    with pytest.raises(ConfigurationRefused, match=why):
        load_cpus(settings, root_dir)


def test_a_kubelets_file_is_taken_over(settings: CpuManager, root_dir: Path) -> None:
    """Its pods keep what they have."""
    cpus = loaded(settings, root_dir)
    (root_dir / STATE_FILE).write_text(
        '{"policyName":"static","defaultCpuSet":"0,2-3","entries":{"a":{"c0":"1"}},"checksum":0}'
    )
    cpus = loaded(settings, root_dir)
    assert written_cpus(cpus.shared) == "0,2-3"
    assert list(cpus.holders()) == ["a"]
