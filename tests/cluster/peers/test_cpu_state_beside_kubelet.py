"""Can a kubelet be replaced by us and back: does each start on the other's `cpu_manager_state`, and refuse what does not suit?"""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from proto.temporal.hardware.ledger import AllocateHardware
from tests.cluster.cluster_node import condition, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import NAME, KubeletNode
from tests.node.hardware.cpus import ALL, CPUS, KEYS, OTHERS, whole
from tests.node.tempolet_node import PATIENCE
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


def created(plane: ControlPlane) -> dict[str, Any]:
    """Create a pod with CPUs of its own on the kubelet's node; returns it as the API has it."""
    pod = whole("whole")
    pod["spec"] |= {"nodeName": NAME, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1}
    made: dict[str, Any] = plane.api.create(pods_path(), pod)
    return made


def until_ready(plane: ControlPlane, path: str) -> None:
    """Wait until a node or a pod is ready."""
    plane.api.until(path, lambda one: condition(one, "Ready") == "True", f"{path} is ready", PATIENCE)


def test_we_start_on_the_kubelets_file(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, settings: CpuManager
) -> None:
    """With its pods' CPUs; what we write of it is what it has written. Another policy is refused."""
    home, root_dir = node_dir / "kubelets-file", tmp_path / "ours"
    with kubelet_node.running(home, KEYS):
        until_ready(plane, f"/api/v1/nodes/{NAME}")
        pod = created(plane)
        until_ready(plane, pods_path(name=pod["metadata"]["name"]))
        written = (kubelet_node.root_dir(home) / STATE_FILE).read_bytes()
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
    pod, home = created(plane), node_dir / "our-file"
    cpus = load_cpus(settings, tmp_path)
    assert cpus is not None
    asyncio.run(NodeHardware([cpus]).allocate(AllocateHardware(hardware_slice(pod))))
    ours = (tmp_path / STATE_FILE).read_bytes()
    assert ALL.encode() not in ours
    with kubelet_node.running(home, KEYS, files={STATE_FILE: ours}):
        until_ready(plane, pods_path(name=pod["metadata"]["name"]))
        assert (kubelet_node.root_dir(home) / STATE_FILE).read_bytes() == ours


def test_the_kubelet_refuses_what_we_refuse(
    kubelet_node: KubeletNode, node_dir: Path, tmp_path: Path, settings: CpuManager
) -> None:
    """In the same words, but for the path."""
    load_cpus(CpuManager(), tmp_path)
    with pytest.raises(ConfigurationRefused) as refused:
        load_cpus(settings, tmp_path)
    ours, home = (
        str(refused.value).partition("could not restore")[2].partition("checkpoint file")[0],
        node_dir / "refused",
    )
    log = home / "state/log/kubelet.log"
    with kubelet_node.running(home, KEYS, files={STATE_FILE: (tmp_path / STATE_FILE).read_bytes()}):
        told = until_told(log, "could not restore")
    assert ours.replace('"', '\\"') in told.replace('\\\\"', '\\"')


def until_told(log: Path, words: str) -> str:
    """Wait until a log has these words; raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if log.exists() and words in (told := log.read_text()):
            return told
        time.sleep(0.2)
    raise TimeoutError(f"{log} does not say {words!r}")


def until_gone(plane: ControlPlane) -> None:
    """Wait until the API has no pod of an earlier test."""
    path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NAME}"
    plane.api.until(path, lambda one: not one["items"], "no pod is left", PATIENCE)
