"""Can a kubelet be replaced by us and back: does each start on the other's `memory_manager_state`, and refuse what does not suit?"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from proto.temporal.hardware.ledger import AllocateHardware
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import NAME, KubeletNode
from tests.cluster.peers.test_cpu_state_beside_kubelet import until_gone, until_ready, until_told
from tests.node.tempolet_node import pod_manifest
from tests.worker.settings.test_config import load
from worker.hardware.memory_of_nodes import load_memory
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.memory_manager import MemoryManager
from worker.settings.hardware.numa_nodes import read_nodes
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.memory_nodes.amounts import Block
from workflows.decide.memory_nodes.state_file import STATE_FILE
from workflows.decide.node.hardware_needs import hardware_slice

FIRST: Final = min(read_nodes().memory)
SIZE: Final = 32 * 2**20
KEYS: Final[dict[str, Any]] = {
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"memory": "64Mi"},
    "evictionHard": {"memory.available": "36Mi"},
    "reservedMemory": [{"numaNode": FIRST, "limits": {"memory": "100Mi"}}],
}
"""Reservation and threshold together are what is reserved of the nodes."""


@pytest.fixture
def settings(tmp_path: Path) -> MemoryManager:
    """Configure this machine as the kubelet is configured."""
    return load(tmp_path, "\n".join(f"{key}: {json.dumps(value)}" for key, value in KEYS.items())).memory_manager


def created(plane: ControlPlane) -> dict[str, Any]:
    """Create a Guaranteed pod on the kubelet's node; returns it as the API has it."""
    pod = pod_manifest("pinned")
    amounts = {"cpu": "100m", "memory": str(SIZE)}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    pod["spec"] |= {"nodeName": NAME, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1}
    made: dict[str, Any] = plane.api.create(pods_path(), pod)
    return made


def test_we_start_on_the_kubelets_file(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, settings: MemoryManager
) -> None:
    """With its pods' memory; what we write of it is what it has written. Another policy is refused."""
    home, root_dir = node_dir / "kubelets-memory", tmp_path / "ours"
    with kubelet_node.running(home, KEYS):
        until_ready(plane, f"/api/v1/nodes/{NAME}")
        pod = created(plane)
        until_ready(plane, pods_path(name=pod["metadata"]["name"]))
        written = (kubelet_node.root_dir(home) / STATE_FILE).read_bytes()
    root_dir.mkdir()
    (root_dir / STATE_FILE).write_bytes(written)
    memory = load_memory(settings, root_dir)
    assert memory is not None
    assert memory.known.of(pod["metadata"]["uid"], "main") == (Block((FIRST,), "memory", SIZE),)
    assert (root_dir / STATE_FILE).read_bytes() == written
    with pytest.raises(
        ConfigurationRefused, match='configured policy "None" differs from state checkpoint policy "Static"'
    ):
        load_memory(MemoryManager(), root_dir)


def test_the_kubelet_starts_on_ours(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, settings: MemoryManager
) -> None:
    """Its checksum is right, and the pod keeps its memory."""
    until_gone(plane)
    pod, home = created(plane), node_dir / "our-memory"
    memory = load_memory(settings, tmp_path)
    assert memory is not None
    asyncio.run(NodeHardware([memory]).allocate(AllocateHardware(hardware_slice(pod))))
    ours = (tmp_path / STATE_FILE).read_bytes()
    assert pod["metadata"]["uid"].encode() in ours
    with kubelet_node.running(home, KEYS, files={STATE_FILE: ours}):
        until_ready(plane, pods_path(name=pod["metadata"]["name"]))
        assert (kubelet_node.root_dir(home) / STATE_FILE).read_bytes() == ours


def test_the_kubelet_refuses_what_we_refuse(
    kubelet_node: KubeletNode, node_dir: Path, tmp_path: Path, settings: MemoryManager
) -> None:
    """In the same words, but for the path."""
    load_memory(MemoryManager(), tmp_path)
    with pytest.raises(ConfigurationRefused) as refused:
        load_memory(settings, tmp_path)
    ours = str(refused.value).partition("could not restore")[2].partition("checkpoint file")[0]
    home = node_dir / "refused-memory"
    log = home / "state/log/kubelet.log"
    with kubelet_node.running(home, KEYS, files={STATE_FILE: (tmp_path / STATE_FILE).read_bytes()}):
        told = until_told(log, "could not restore")
    assert ours.replace('"', '\\"') in told.replace('\\\\"', '\\"')
