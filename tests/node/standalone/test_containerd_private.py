"""Does a private containerd start with its images, run pods with host ports, and leave nothing behind?"""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from proto.cri.v1 import api_pb2 as cri
from tests.node.conftest import BUSYBOX
from tests.node.tempolet_node import PATIENCE
from worker.standalone.containerd import CNI_CACHE, Containerd
from worker.standalone.containerd_config import PAUSE_IMAGE, ContainerdPlaces, PodNetwork
from worker.standalone.cri_client import CriClient
from worker.standalone.machine import leftovers as remains
from worker.standalone.machine import programs
from worker.standalone.machine.process import wait_for_end
from worker.standalone.temporal_server import TemporalServer, free_ports

SERVE: Final = "echo hello > /index.html && exec httpd -f -p 80 -h /"


@pytest.fixture
def own(slot: int, node_dir: Path) -> Iterator[Containerd]:
    """Return a containerd for this test, beside the session's."""
    places = ContainerdPlaces(node_dir / "own", node_dir / "own-run")
    network = PodNetwork(f"tplown{slot}", f"10.216.{slot}.0/24")
    daemon = Containerd(places, network, cgroup=f"/tempolet-own-{slot}")
    with daemon:
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon
    assert what_is_left(daemon) == []


def what_is_left(daemon: Containerd) -> list[str]:
    """List what is left of an instance."""
    left = [f"shim {pid}" for pid in remains.shims_of(daemon.socket)]
    left += [f"process {pid}" for pid in remains.processes_in_cgroup(daemon.cgroup)]
    left += remains.mounts_below(daemon.places.root, daemon.places.run)
    left += [str(path) for path in remains.cgroup_directories(daemon.cgroup)]
    left += [str(path) for path in (Path("/sys/class/net") / daemon.network.bridge, daemon.socket) if path.exists()]
    left += [str(path) for path in CNI_CACHE.glob(f"{daemon.network.bridge}-*")]
    rules = subprocess.run(
        [programs.find_program(programs.NFT), "list", "ruleset"], capture_output=True, text=True, check=True
    ).stdout
    prefix = daemon.network.subnet.rpartition(".")[0]
    left += [line.strip() for line in rules.splitlines() if daemon.network.bridge in line or f"{prefix}." in line]
    return left


def run_pod(daemon: Containerd, name: str, host_port: int = 0) -> tuple[str, str]:
    """Run a web server in a pod; returns sandbox id and address."""
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=f"{name}-uid", namespace="default"),
        linux=cri.LinuxPodSandboxConfig(cgroup_parent=f"{daemon.cgroup}/{name}"),
    )
    if host_port:
        config.port_mappings.add(container_port=80, host_port=host_port)
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="web"),
        image=cri.ImageSpec(image=BUSYBOX),
        command=["sh", "-c", SERVE],
        linux=cri.LinuxContainerConfig(),
    )
    with CriClient(daemon.socket) as runtime:
        sandbox = runtime.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
        created = runtime.runtime.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        )
        runtime.runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))
        status = runtime.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox)).status
        return sandbox, status.network.ip


def fetch(address: str) -> bytes:
    """Read a page once something listens."""
    host, _, port = address.partition(":")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((host, int(port))) == 0:
                break
        time.sleep(0.01)  # another process: there is no event to await
    with urllib.request.urlopen(f"http://{address}/index.html", timeout=PATIENCE) as answer:
        body: bytes = answer.read()
    return body


def test_network_and_images_are_there(containerd: Containerd) -> None:
    """A pod could start at once: the network is ready, and the CRI knows the sandbox image and busybox."""
    with CriClient(containerd.socket) as runtime:
        assert runtime.network_problem() == ""
        assert runtime.has_image(BUSYBOX)
        assert runtime.has_image(PAUSE_IMAGE)
        assert not runtime.has_image("docker.io/library/nothing:1")


def test_a_pod_answers_on_its_address_and_on_the_nodes_port(own: Containerd) -> None:
    """The bridge, the portmap plugin and the images work for a real pod; a second start finds what runs."""
    (port,) = free_ports(1)
    _, address = run_pod(own, "web", host_port=port)
    assert fetch(f"{address}:80") == b"hello\n"
    assert fetch(f"127.0.0.1:{port}") == b"hello\n"
    before = own.process.running()
    assert own.start().startswith("containerd ")
    assert own.process.running() == before


def test_pods_outlive_their_containerd_and_go_with_it_when_it_stops(own: Containerd) -> None:
    """A killed containerd leaves pods running; the next start finds them, and stop removes them in order."""
    _, address = run_pod(own, "web")
    identity = own.process.running()
    assert identity
    os.kill(identity.pid, signal.SIGKILL)
    assert wait_for_end(identity.pid, 10)
    assert fetch(f"{address}:80") == b"hello\n"
    own.start()
    with CriClient(own.socket) as runtime:
        assert [sandbox.metadata.name for sandbox in runtime.sandboxes()] == ["web"]
    assert own.stop() == []
    assert what_is_left(own) == []


def test_stop_takes_away_what_a_dead_containerd_left(own: Containerd) -> None:
    """Shims, processes, mounts, veth, bridge, cgroups and host ports are removed, and the result says by force."""
    run_pod(own, "web", host_port=free_ports(1)[0])
    identity = own.process.running()
    assert identity
    os.kill(identity.pid, signal.SIGKILL)
    assert wait_for_end(identity.pid, 10)
    assert what_is_left(own)
    assert any("killed" in forced for forced in own.stop())
    assert what_is_left(own) == []


def test_temporal_is_found_again(temporal: TemporalServer) -> None:
    """A second start finds the running server and changes nothing."""
    before = temporal.process.running()
    assert before
    assert temporal.start() is False
    assert temporal.process.running() == before
    assert temporal.address == f"unix://{temporal.run}/temporal/grpc.sock"
