"""Are the memory and the topology manager configured as the kubelet's, and is each contradiction refused in its words?"""

import functools
from pathlib import Path

import pytest

from tests.worker.settings.hardware.test_numa_nodes import numa
from tests.worker.settings.test_config import load
from worker.settings.hardware import memory_manager, topology_manager
from worker.settings.hardware.numa_nodes import read_nodes
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.topology.options import Options

STATIC = "memoryManagerPolicy: Static\nkubeReserved: {memory: 156Mi}\n"
RESERVED = "reservedMemory: [{numaNode: 1, limits: {memory: 256Mi}}]\n"
MIB = 2**20


@pytest.fixture(autouse=True)
def two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on a machine with two NUMA nodes, of 3 and 4 GiB with 2 GiB in huge pages each."""
    read = functools.partial(read_nodes, numa(tmp_path / "machine", 2, 3))
    monkeypatch.setattr(memory_manager.memory_manager, "__defaults__", (read,))
    monkeypatch.setattr(topology_manager.topology_manager_of, "__defaults__", (read,))


def test_without_policies(tmp_path: Path) -> None:
    """Nothing is pinned or aligned."""
    config = load(tmp_path, "memoryManagerPolicy: ''\ntopologyManagerPolicy: ''\n")
    assert (config.memory_manager.policy, config.memory_manager.idle) == ("None", None)
    assert config.topology_manager.policy.name == "none"
    assert config.warnings == ()


def test_memory_is_reserved_by_node(tmp_path: Path) -> None:
    """As much as the reservations with the hard eviction threshold, 100Mi by default."""
    config = load(tmp_path, STATIC + RESERVED.replace("1,", "3,"))
    assert config.memory_manager.policy == "Static"
    assert config.memory_manager.idle is not None
    tables = {number: node.table("memory") for number, node in config.memory_manager.idle.items()}
    assert {number: table.system_reserved // MIB for number, table in tables.items()} == {2: 0, 3: 256}
    assert {number: table.allocatable // MIB for number, table in tables.items()} == {2: 1024, 3: 2048 - 256}
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (
            "memoryManagerPolicy: static\n",
            'memoryManagerPolicy: unknown policy: "static"; it must be "None" or "Static"',
        ),
        (
            "memoryManagerPolicy: BestEffort\n",
            'memoryManagerPolicy: policy "BestEffort" is not available for platform "linux"; it must be "None" or "Static"',
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {cpu: '1'}}]\n",
            (
                'reservedMemory: invalid configuration: the limit type "cpu" for NUMA node 0 is not supported, '
                "only [memory hugepages-<HugePageSize>] is accepted"
            ),
        ),
        (
            STATIC + RESERVED,
            (
                "reservedMemory: the reserved memory configuration references a NUMA node 1 that does not exist "
                "on this machine; the machine has the NUMA nodes 2, 3"
            ),
        ),
        (
            STATIC,
            (
                'reservedMemory: the total amount "0" of type "memory" is not equal to the value "256Mi" '
                "determined by Node Allocatable feature; all memory in it together must be 256Mi, which is what kubeReserved, "
                "systemReserved and the hard eviction threshold keep from pods"
            ),
        ),
        (
            "topologyManagerPolicy: strict\n",
            (
                'invalid configuration: topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: '
                '["none" "best-effort" "restricted" "single-numa-node"]'
            ),
        ),
        (
            "topologyManagerScope: node\n",
            (
                'invalid configuration: topologyManagerScope (--topology-manager-scope) "node" must be one of: '
                '"container", or "pod"'
            ),
        ),
        (
            "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '2'}\n",
            (
                'topologyManagerPolicyOptions: the minimum value of "max-allowable-numa-nodes" should not be less than 8; '
                "the value must be a number, 8 or more"
            ),
        ),
        (
            "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {fast: 'true'}\n",
            (
                'topologyManagerPolicyOptions: unknown Topology Manager Policy option: "fast"; '
                "the options are prefer-closest-numa-nodes and max-allowable-numa-nodes"
            ),
        ),
    ],
)
def test_refused_configurations(tmp_path: Path, keys: str, why: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(ConfigurationRefused) as refusal:
        load(tmp_path, keys)
    assert why in str(refusal.value)


def test_a_topology_manager(tmp_path: Path) -> None:
    """Of this machine."""
    keys = (
        "topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n"
        "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\n"
    )
    config = load(tmp_path, keys)
    assert (config.topology_manager.policy.name, config.topology_manager.scope) == ("restricted", "pod")
    assert config.topology_manager.policy.options == Options(closest=True)
    assert config.topology_manager.policy.machine.nodes == (2, 3)
    assert config.warnings == ()


def test_distances_that_the_machine_does_not_tell(tmp_path: Path) -> None:
    """Cannot be preferred."""
    for file in (tmp_path / "machine").glob("node*/distance"):
        file.unlink()
    with pytest.raises(ConfigurationRefused, match="error getting NUMA distances from cadvisor"):
        load(
            tmp_path,
            "topologyManagerPolicy: best-effort\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\n",
        )
