"""Can a kubelet be replaced by us and back: does each start on the other's `memory_manager_state`, and refuse what does not suit?"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from proto.temporal.hardware.ledger import AllocateHardware
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import KubeletNode
from tests.cluster.peers.state_files import (
    assert_refused_alike,
    created,
    kept_by_kubelet,
    until_gone,
    written_by_kubelet,
)
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


def pinned() -> dict[str, Any]:
    """Build a Guaranteed pod."""
    pod = pod_manifest("pinned")
    amounts = {"cpu": "100m", "memory": str(SIZE)}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return pod


def test_we_start_on_the_kubelets_file(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, settings: MemoryManager
) -> None:
    """With its pods' memory; what we write of it is what it has written. Another policy is refused."""
    root_dir, home = tmp_path / "ours", node_dir / "kubelets-memory"
    pod, written = written_by_kubelet(kubelet_node, plane, home, KEYS, STATE_FILE, pinned())
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
    pod, home = created(plane, pinned()), node_dir / "our-memory"
    memory = load_memory(settings, tmp_path)
    assert memory is not None
    asyncio.run(NodeHardware([memory]).allocate(AllocateHardware(hardware_slice(pod))))
    ours = (tmp_path / STATE_FILE).read_bytes()
    assert pod["metadata"]["uid"].encode() in ours
    assert kept_by_kubelet(kubelet_node, plane, home, KEYS, tmp_path / STATE_FILE, pod) == ours


def test_the_kubelet_refuses_what_we_refuse(
    kubelet_node: KubeletNode, node_dir: Path, tmp_path: Path, settings: MemoryManager
) -> None:
    """In the same words, but for the path."""
    load_memory(MemoryManager(), tmp_path)
    with pytest.raises(ConfigurationRefused) as refused:
        load_memory(settings, tmp_path)
    assert_refused_alike(kubelet_node, node_dir / "refused-memory", KEYS, tmp_path / STATE_FILE, refused.value)
