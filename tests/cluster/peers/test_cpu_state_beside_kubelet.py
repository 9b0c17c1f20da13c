"""Can a kubelet be replaced by us and back: does each start on the other's `cpu_manager_state`, and refuse what does not suit?"""

import asyncio
from pathlib import Path

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
from tests.node.hardware.cpus import ALL, CPUS, KEYS, OTHERS, whole
from tests.worker.settings.test_config import load
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.cpus.cpu_sets import written_cpus
from workflows.decide.cpus.state_file import STATE_FILE
from workflows.decide.node.hardware_needs import hardware_slice

pytestmark = pytest.mark.skipif(CPUS < 2, reason="one CPU is reserved, and another one is given")


@pytest.fixture
def settings(tmp_path: Path) -> CpuManager:
    """Configure this machine as the kubelet is configured."""
    return load(tmp_path, "\n".join(f"{key}: '{value}'" for key, value in KEYS.items())).cpu_manager


def test_we_start_on_the_kubelets_file(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, settings: CpuManager
) -> None:
    """With its pods' CPUs; what we write of it is what it has written. Another policy is refused."""
    root_dir, home = tmp_path / "ours", node_dir / "kubelets-file"
    pod, written = written_by_kubelet(kubelet_node, plane, home, KEYS, STATE_FILE, whole("whole"))
    root_dir.mkdir()
    (root_dir / STATE_FILE).write_bytes(written)
    cpus = load_cpus(settings, root_dir)
    assert cpus is not None
    assert written_cpus(cpus.known.of(pod["metadata"]["uid"], "main") or ()) == OTHERS
    assert (root_dir / STATE_FILE).read_bytes() == written
    with pytest.raises(
        ConfigurationRefused, match='configured policy "none" differs from state checkpoint policy "static"'
    ):
        load_cpus(CpuManager(), root_dir)


def test_the_kubelet_starts_on_ours(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, settings: CpuManager
) -> None:
    """Its checksum is right, and the pod keeps its CPUs."""
    until_gone(plane)
    pod, home = created(plane, whole("whole")), node_dir / "our-file"
    cpus = load_cpus(settings, tmp_path)
    assert cpus is not None
    asyncio.run(NodeHardware([cpus]).allocate(AllocateHardware(hardware_slice(pod))))
    ours = (tmp_path / STATE_FILE).read_bytes()
    assert ALL.encode() not in ours
    assert kept_by_kubelet(kubelet_node, plane, home, KEYS, tmp_path / STATE_FILE, pod) == ours


def test_the_kubelet_refuses_what_we_refuse(
    kubelet_node: KubeletNode, node_dir: Path, tmp_path: Path, settings: CpuManager
) -> None:
    """In the same words, but for the path."""
    load_cpus(CpuManager(), tmp_path)
    with pytest.raises(ConfigurationRefused) as refused:
        load_cpus(settings, tmp_path)
    assert_refused_alike(kubelet_node, node_dir / "refused", KEYS, tmp_path / STATE_FILE, refused.value)
