"""Is the machine's topology read as cAdvisor reads it?"""

from pathlib import Path

import pytest

from tests.worker.settings.hardware.machines import Shape, machine
from worker.settings.hardware.cpu_topology import read_topology
from workflows.decide.cpus.cpu_sets import parse_cpus
from workflows.decide.cpus.topology import Place, TopologyError


def test_two_sockets_of_two_nodes_with_threads(tmp_path: Path) -> None:
    """Core ids repeat in each socket; a core is named by its first thread."""
    found = read_topology(*machine(tmp_path, Shape(sockets=2, nodes_per_socket=2, threads=2)))
    assert (found.cpus, found.cores, found.sockets, found.nodes, found.caches) == (16, 8, 2, 4, 2)
    assert found.places.by_cpu[13] == Place(node=2, socket=1, core=5, cache=1)


def test_an_uncore_cache_is_one_that_only_some_cores_share(tmp_path: Path) -> None:
    """Else the socket stands for it."""
    found = read_topology(*machine(tmp_path, Shape(cores_per_node=4, cores_per_cache=2)))
    assert [found.places.by_cpu[cpu].cache for cpu in range(4)] == [0, 0, 1, 1]


def test_what_is_offline_is_left_out(tmp_path: Path) -> None:
    """A second thread, and a whole core."""
    found = read_topology(*machine(tmp_path, Shape(cores_per_node=2, threads=2), online="0-1,3"))
    assert found.places.cpus == {0, 1, 3}
    assert (found.cpus, found.cores) == (3, 2)


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    """Sockets stand for NUMA nodes."""
    found = read_topology(*machine(tmp_path, Shape(sockets=2, numa=False)))
    assert (found.cpus, found.nodes, found.sockets) == (4, 2, 2)
    assert found.places.by_cpu[3].node == 1


def test_a_machine_that_tells_no_socket(tmp_path: Path) -> None:
    """As with Arm, whose cpuinfo has no `physical id`."""
    system, cpuinfo = machine(tmp_path, Shape(sockets=2))
    cpuinfo.write_text("processor\t: 0\n")
    assert read_topology(system, cpuinfo).sockets == 2


def test_a_machine_without_cpus(tmp_path: Path) -> None:
    """Nothing can be read."""
    with pytest.raises(TopologyError, match="could not detect number of cpus"):
        read_topology(tmp_path, tmp_path / "cpuinfo")


def test_this_machine() -> None:
    """It has the CPUs that its kernel says are online."""
    assert read_topology().places.cpus == parse_cpus(Path("/sys/devices/system/cpu/online").read_text().strip())
