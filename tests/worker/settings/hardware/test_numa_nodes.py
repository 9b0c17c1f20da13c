"""Are a machine's NUMA nodes read as cAdvisor reads them?"""

from pathlib import Path

import pytest

from activities.machine.node_capacity import memory_capacity
from worker.settings.hardware.numa_nodes import read_nodes
from workflows.decide.memory_nodes.static_policy import NodeMemory
from workflows.decide.topology.numa_nodes import NumaNodes


def numa(folder: Path, *nodes: int, distances: bool = True) -> Path:
    """Write a machine's files: each node has its number plus one GiB and two huge pages of 1 GiB."""
    for number in nodes:
        (pages := folder / f"node{number}/hugepages/hugepages-1048576kB").mkdir(parents=True)
        (pages / "nr_hugepages").write_text("2\n")
        (folder / f"node{number}/meminfo").write_text(
            f"Node {number} MemTotal:  {(number + 1) * 2**20} kB\nNode 0 x: 1\n"
        )
        if distances:
            row = " ".join("10" if one == number else str(20 + one) for one in nodes)
            (folder / f"node{number}/distance").write_text(f"{row}\n")
    return folder


def test_nodes_of_which_one_is_offline(tmp_path: Path) -> None:
    """Distances are to the nodes that are online."""
    found = read_nodes(numa(tmp_path, 0, 2))
    assert found.topology == NumaNodes((0, 2), {0: {0: 10, 2: 22}, 2: {0: 20, 2: 10}})
    assert found.memory == {0: NodeMemory(2**30, {2**30: 2}), 2: NodeMemory(3 * 2**30, {2**30: 2})}


def test_without_distances(tmp_path: Path) -> None:
    """prefer-closest-numa-nodes cannot be used then."""
    assert read_nodes(numa(tmp_path, 0, distances=False)).topology.distances == {}


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    """All memory is of one node."""
    found = read_nodes(tmp_path / "none")
    assert found.topology.nodes == (0,)
    assert found.memory[0].size == memory_capacity()


@pytest.mark.parametrize(("file", "text"), [("meminfo", "Node 0 MemFree: 1 kB\n"), ("distance", "10 x\n")])
def test_a_content_that_is_none(tmp_path: Path, file: str, text: str) -> None:
    """Is named."""
    numa(tmp_path, 0)
    (tmp_path / "node0" / file).write_text(text)
    with pytest.raises(ValueError, match=r"MemTotal|invalid literal"):
        read_nodes(tmp_path)


def test_this_machine() -> None:
    """Has memory."""
    assert all(one.size for one in read_nodes().memory.values())
