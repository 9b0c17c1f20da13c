"""Does a container get memory of NUMA nodes, aligned with its CPUs, and is it free again?"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from activities.hardware.services import HardwareRefused
from proto.cri.runtime_container import RuntimeContainer
from proto.temporal.hardware.ledger import AllocateHardware, ContainerAssignment, MemoryBlock, PodAssignment
from tests.worker.settings.hardware.machines import Shape, machine
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.memory_of_nodes import MemoryOfNodes, load_memory
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.cpu_topology import read_topology
from worker.settings.hardware.memory_manager import MemoryManager
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.static_policy import static_policy
from workflows.decide.memory_nodes.state_file import STATE_FILE
from workflows.decide.memory_nodes.static_policy import NodeMemory, idle_machine
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.scopes import TopologyManager, topology_manager

GIB = 2**30
TWO = {0: NodeMemory(8 * GIB), 1: NodeMemory(8 * GIB)}
SETTINGS = MemoryManager(idle_machine(TWO, {0: {"memory": GIB}}))


@pytest.fixture
def root_dir(tmp_path: Path) -> Path:
    """Return a node's folder."""
    (folder := tmp_path / "node").mkdir()
    return folder


def loaded(root_dir: Path) -> MemoryOfNodes:
    """Load what is on disk."""
    found = load_memory(SETTINGS, root_dir)
    assert found is not None
    return found


def both(root_dir: Path, topology: TopologyManager) -> NodeHardware:
    """Have two NUMA nodes of four CPUs, of which CPU 0 is reserved, and 8 GiB each."""
    places = read_topology(*machine(root_dir.parent / "machine", Shape(sockets=2, cores_per_node=4)))
    cpus = load_cpus(CpuManager(static_policy(places, Options(), 1)), root_dir)
    assert cpus is not None
    return NodeHardware([cpus, loaded(root_dir)], topology)


def aligned(policy: str, scope: str = "container") -> TopologyManager:
    """Align by a policy."""
    return topology_manager(policy, scope, {}, NumaNodes((0, 1)))


def pod(uid: str, *gibibytes: int, cpus: str = "1", inits: int = 0) -> dict[str, Any]:
    """Build a guaranteed pod whose containers c0, c1, … ask for so much memory; the first ones are init containers."""
    amounts = [{"cpu": cpus, "memory": f"{one}Gi"} for one in gibibytes]
    containers = [
        {"name": f"c{number}", "resources": {"requests": one, "limits": one}} for number, one in enumerate(amounts)
    ]
    spec = {"initContainers": containers[:inits], "containers": containers[inits:]}
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": spec}


def on_disk(root_dir: Path) -> dict[str, Any]:
    """Read the kubelet's file: the nodes of each container."""
    entries = json.loads((root_dir / STATE_FILE).read_text()).get("entries", {})
    return {
        uid: {name: [one["numaAffinity"] for one in blocks] for name, blocks in containers.items()}
        for uid, containers in entries.items()
    }


async def test_memory_is_given_and_written_before_the_answer(root_dir: Path) -> None:
    """From as few nodes as have enough; others may use all nodes."""
    hardware = NodeHardware([loaded(root_dir)])
    given = await hardware.allocate(AllocateHardware(pod("a", 3, 8)))
    assert given.containers == {
        "c0": ContainerAssignment(memory=(MemoryBlock("memory", (0,), 3 * GIB),)),
        "c1": ContainerAssignment(memory=(MemoryBlock("memory", (1,), 8 * GIB),)),
    }
    assert given.why[1] == "container c1 has its memory from NUMA node 1 (8Gi memory): the pod is Guaranteed"
    assert on_disk(root_dir) == {"a": {"c0": [[0]], "c1": [[1]]}}
    assert hardware.of("a", "c1").cpuset_mems == "1"
    assert not hardware.of("other", "c").cpuset_mems
    assert not hardware.is_quota_off("a")


async def test_an_activity_that_runs_twice_gives_the_same(root_dir: Path) -> None:
    """Also in the next worker, and though the ledger has nothing of it yet."""
    first = await NodeHardware([loaded(root_dir)]).allocate(AllocateHardware(pod("a", 3)))
    again = NodeHardware([loaded(root_dir)])
    assert await again.allocate(AllocateHardware(pod("a", 3))) == first
    other = await again.allocate(AllocateHardware(pod("b", 6), counting=("a",)))
    assert other.containers["c0"].memory[0].nodes == (1,)


async def test_what_the_ledger_says_counts(root_dir: Path) -> None:
    """A file that was lost is made anew, and what only the file has of pods that do not count is free."""
    hardware = NodeHardware([loaded(root_dir)])
    await hardware.allocate(AllocateHardware(pod("gone", 7)))
    block = MemoryBlock("memory", (0,), 4 * GIB)
    unknown = MemoryBlock("memory", (7,), 4 * GIB)
    ledger = {
        "a": PodAssignment("default", "a", {"c0": ContainerAssignment(memory=(block,))}),
        "b": PodAssignment("default", "b", {"c0": ContainerAssignment(memory=(unknown,))}),
    }
    given = await hardware.allocate(AllocateHardware(pod("c", 4), ledger, ("a", "b")))
    assert given.containers["c0"].memory[0].nodes == (1,)
    assert on_disk(root_dir) == {"a": {"c0": [[0]]}, "c": {"c0": [[1]]}}


async def test_another_assignment_in_the_ledger_counts(root_dir: Path) -> None:
    """Not the file's."""
    hardware = NodeHardware([loaded(root_dir)])
    await hardware.allocate(AllocateHardware(pod("a", 3)))
    block = MemoryBlock("memory", (1,), 3 * GIB)
    ledger = {"a": PodAssignment("default", "a", {"c0": ContainerAssignment(memory=(block,))})}
    await hardware.allocate(AllocateHardware(pod("b", 7), ledger, ("a",)))
    assert on_disk(root_dir) == {"a": {"c0": [[1]]}, "b": {"c0": [[0]]}}


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(MemoryBlock("memory", (0,), 4 * GIB), id="more-is-reserved-now"),
        pytest.param(MemoryBlock("memory", (0, 1), 4 * GIB), id="the-node-serves-others-by-itself"),
        pytest.param(MemoryBlock("hugepages-1Gi", (0,), GIB), id="there-are-no-such-pages-any-more"),
    ],
)
async def test_memory_that_nodes_do_not_have_any_more(root_dir: Path, block: MemoryBlock) -> None:
    """The ledger outlives the file that was deleted for other reservations; the node starts a second time, too."""
    kept = MemoryBlock("memory", (0,), 6 * GIB)
    ledger = {
        name: PodAssignment("default", name, {"c0": ContainerAssignment(memory=(had,))})
        for name, had in (("a", kept), ("b", block))
    }
    hardware = NodeHardware([loaded(root_dir)])
    with capture_logs() as logs:
        await hardware.allocate(AllocateHardware(pod("c", 1), ledger, ("a", "b")))
        await hardware.allocate(AllocateHardware(pod("d", 8), ledger, ("a", "b", "c")))
    told = [one["podUID"] for one in logs if one["event"] == "a container does not keep its memory"]
    assert told == ["b"]
    assert on_disk(root_dir) == {"a": {"c0": [[0]]}, "c": {"c0": [[0]]}, "d": {"c0": [[1]]}}
    await hardware.release({"a"})
    assert loaded(root_dir).known.nodes_of("c", "c0") == (0,)


async def test_a_pod_that_is_refused_halfway_leaves_nothing(root_dir: Path) -> None:
    """In the kubelet's words."""
    hardware = NodeHardware([loaded(root_dir)])
    with pytest.raises(HardwareRefused) as refused:
        await hardware.allocate(AllocateHardware(pod("a", 7, 9)))
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert str(refused.value) == (
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )
    assert on_disk(root_dir) == {}


async def test_memory_of_init_containers_that_ended_is_free(root_dir: Path) -> None:
    """When the next container starts; the ledger has it until the pod is over."""
    hardware = NodeHardware([loaded(root_dir)])
    given = await hardware.allocate(AllocateHardware(pod("a", 6, 1, inits=1)))
    await hardware.starting("a", {"name": "c0"})
    await hardware.starting("unknown", {"name": "c0"})
    assert on_disk(root_dir) == {"a": {"c0": [[0]], "c1": [[0]]}}
    await hardware.starting("a", {"name": "c1"})
    assert on_disk(root_dir) == {"a": {"c1": [[0]]}}
    other = await hardware.allocate(AllocateHardware(pod("b", 6), {"a": given}, ("a",)))
    assert other.containers["c0"].memory[0].nodes == (0,)


async def test_what_is_free_while_another_pod_is_chosen_for(root_dir: Path) -> None:
    """It is when that is done, and the one after it can have it."""
    hardware = NodeHardware([loaded(root_dir)])
    given = await hardware.allocate(AllocateHardware(pod("a", 6, 1, inits=1)))
    over = await hardware.allocate(AllocateHardware(pod("over", 5), {"a": given}, ("a",)))
    waits = asyncio.create_task(
        hardware.allocate(AllocateHardware(pod("b", 1), {"a": given, "over": over}, ("a", "over")))
    )
    await asyncio.sleep(0)
    await hardware.starting("a", {"name": "c1"})
    await hardware.release({"over"})
    await waits
    assert on_disk(root_dir).keys() == {"a", "b"}
    assert on_disk(root_dir)["a"] == {"c1": [[0]]}


async def test_containers_of_several_pods_that_begin_together(root_dir: Path) -> None:
    """Each frees what its init containers had, also while the file is written for another one."""
    hardware = NodeHardware([loaded(root_dir)])
    await hardware.allocate(AllocateHardware(pod("a", 2, 1, inits=1)))
    await hardware.allocate(AllocateHardware(pod("b", 2, 1, inits=1), counting=("a",)))
    await asyncio.gather(*(hardware.starting(uid, {"name": "c1"}) for uid in ("a", "b", "a", "b")))
    assert on_disk(root_dir) == {"a": {"c1": [[0]]}, "b": {"c1": [[0]]}}


async def test_memory_of_a_pod_that_is_over_is_free(root_dir: Path) -> None:
    """And told."""
    hardware, told = NodeHardware([loaded(root_dir)]), list[bool]()
    await hardware.allocate(AllocateHardware(pod("a", 3)))
    assert hardware.holders() == {"a"}
    hardware.changed = lambda: told.append(True)
    await hardware.release({"a", "unknown"})
    await hardware.release({"a"})
    assert (told, on_disk(root_dir)) == ([True], {})


async def test_cpus_and_memory_come_from_one_node(root_dir: Path) -> None:
    """Node 0 has the memory, but only three CPUs; without the topology manager each would take what it has."""
    hardware = both(root_dir, aligned("single-numa-node"))
    given = await hardware.allocate(AllocateHardware(pod("a", 2, cpus="4")))
    assert given.containers["c0"] == ContainerAssignment("4-7", (MemoryBlock("memory", (1,), 2 * GIB),))
    assert given.why[-1] == (
        "container c0 was aligned to NUMA node 1: topologyManagerPolicy is single-numa-node, its scope container, "
        "and what it asks for could all be given there"
    )
    alone = await both(root_dir.parent, aligned("none")).allocate(AllocateHardware(pod("a", 2, cpus="4")))
    assert alone.containers["c0"] == ContainerAssignment("4-7", (MemoryBlock("memory", (0,), 2 * GIB),))


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_a_pod_that_cannot_be_aligned_is_rejected(root_dir: Path, policy: str, scope: str) -> None:
    """Node 0 has the memory alone, node 1 the CPUs."""
    hardware = both(root_dir, aligned(policy, scope))
    await hardware.allocate(AllocateHardware(pod("before", 6, cpus="1")))
    await hardware.allocate(AllocateHardware(pod("other", 8, cpus="1"), counting=("before",)))
    with pytest.raises(HardwareRefused) as refused:
        await hardware.allocate(AllocateHardware(pod("a", 1, cpus="3"), counting=("before", "other")))
    assert refused.value.reason == "TopologyAffinityError"
    assert str(refused.value) == "Resources cannot be allocated with Topology locality"
    assert set(on_disk(root_dir)) == {"before", "other"}


async def test_a_pod_whose_last_container_cannot_be_aligned_leaves_nothing(root_dir: Path) -> None:
    """Nor what its other containers were given."""
    hardware = both(root_dir, aligned("restricted"))
    with pytest.raises(HardwareRefused, match="Resources cannot be allocated with Topology locality"):
        await hardware.allocate(AllocateHardware(pod("a", 7, 7, 7, cpus="3")))
    assert on_disk(root_dir) == {}
    given = await hardware.allocate(AllocateHardware(pod("b", 7, cpus="3")))
    assert given.containers["c0"] == ContainerAssignment("1-3", (MemoryBlock("memory", (0,), 7 * GIB),))


async def test_a_pod_is_aligned_as_a_whole(root_dir: Path) -> None:
    """By the scope pod: two containers that fit on a node each go to the one that has room for both."""
    hardware = both(root_dir, aligned("single-numa-node", "pod"))
    given = await hardware.allocate(AllocateHardware(pod("a", 3, 5, cpus="2")))
    assert [one.memory[0].nodes for one in given.containers.values()] == [(1,), (1,)]


def test_a_node_without_the_policy_writes_the_kubelets_file(root_dir: Path) -> None:
    """So that a kubelet, and a later policy, find what they would have left."""
    assert load_memory(MemoryManager(), root_dir) is None
    assert json.loads((root_dir / STATE_FILE).read_text())["policyName"] == "None"
    with pytest.raises(ConfigurationRefused) as refusal:
        load_memory(SETTINGS, root_dir)
    assert str(refusal.value) == (
        "start memory manager error: could not restore state from checkpoint: [memorymanager] configured policy "
        '"Static" differs from state checkpoint policy "None", please drain this node and delete the memory manager '
        f'checkpoint file "{root_dir / STATE_FILE}" before restarting Kubelet'
        f'; a node of "tempolet up": run "tempolet down", delete {root_dir / STATE_FILE}, and run "tempolet up" again'
    )


async def test_a_lost_file_is_written_again(root_dir: Path) -> None:
    """From what the runtime says; the pod that has memory keeps it when it is admitted again, and others get the rest."""
    left = [
        RuntimeContainer("a", "c0", is_guaranteed=True, cpuset_mems="1", memory_limit=2 * GIB),
        RuntimeContainer("b", "c0", is_guaranteed=True, cpuset_mems="9", memory_limit=2 * GIB),
    ]
    found = load_memory(SETTINGS, root_dir, left=lambda: left)
    assert found is not None
    assert on_disk(root_dir) == {"a": {"c0": [[1]]}}
    hardware = NodeHardware([found])
    assert hardware.of("a", "c0").cpuset_mems == "1"
    again = await hardware.allocate(AllocateHardware(pod("a", 2)))
    assert again.containers["c0"].memory == (MemoryBlock("memory", (1,), 2 * GIB),)
    other = await hardware.allocate(AllocateHardware(pod("b", 7), counting=("a",)))
    assert other.containers["c0"].memory == (MemoryBlock("memory", (0,), 7 * GIB),)


async def test_a_machine_that_has_a_little_less_memory_after_a_reboot(root_dir: Path) -> None:
    """Keeps what was given, and writes what it has now: here a kubelet does not start."""
    await NodeHardware([loaded(root_dir)]).allocate(AllocateHardware(pod("a", 3)))
    less = MemoryManager(idle_machine({0: NodeMemory(8 * GIB - 4096), 1: TWO[1]}, {0: {"memory": GIB}}))
    for _ in range(2):
        found = load_memory(less, root_dir)
        assert found is not None
        assert found.known.nodes_of("a", "c0") == (0,)
        written = json.loads((root_dir / STATE_FILE).read_text())["machineState"]["0"]["memoryMap"]["memory"]
        assert (written["total"], written["free"]) == (8 * GIB - 4096, 4 * GIB - 4096)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"", "not JSON: it is empty", id="empty"),
        pytest.param(b"garbage", "not JSON: wrong at line 1, column 1", id="garbage"),
        pytest.param(b"[1,2]", "not a JSON object", id="a-list"),
        pytest.param(b"\xff\xfe", "not text", id="bytes"),
    ],
)
def test_a_damaged_file_refuses_the_start(root_dir: Path, content: bytes, why: str) -> None:
    """In words that an operator knows, within the kubelet's."""
    root_dir.mkdir(parents=True, exist_ok=True)
    (root_dir / STATE_FILE).write_bytes(content)
    with pytest.raises(ConfigurationRefused) as refusal:
        load_memory(SETTINGS, root_dir)
    assert str(refusal.value).startswith(
        "start memory manager error: could not restore state from checkpoint: no content of a memory_manager_state: "
        f"{why}, please drain this node and delete the memory manager checkpoint file"
    )


async def test_a_file_of_another_machine_refuses_the_start(root_dir: Path) -> None:
    """In the kubelet's words."""
    await NodeHardware([loaded(root_dir)]).allocate(AllocateHardware(pod("a", 3)))
    with pytest.raises(ConfigurationRefused) as refusal:
        load_memory(MemoryManager(idle_machine({0: NodeMemory(3 * GIB)}, {0: {"memory": GIB}})), root_dir)
    assert str(refusal.value) == (
        "start memory manager error: [memorymanager] the expected machine state is different from the real one"
        f'; a node of "tempolet up": run "tempolet down", delete {root_dir / STATE_FILE}, and run "tempolet up" again'
    )
