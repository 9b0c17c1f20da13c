"""A containerd of one test's own, beside the session's; pods that serve a page, and what is left of it in the kernel."""

import contextlib
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proto.cri.v1 import api_pb2 as cri
from tests.killed_sessions import remove_leftovers
from tests.node.conftest import BUSYBOX
from tests.node.tempolet_node import PATIENCE
from tests.waiting import wait_until
from worker.standalone.containerd import CNI_CACHE, Containerd
from worker.standalone.containerd_config import ContainerdPlaces
from worker.standalone.cri_client import CriClient
from worker.standalone.machine import leftovers as remains
from worker.standalone.machine import programs
from worker.standalone.pod_network.network import PodNetwork

SERVE: Final = "echo hello > /index.html && exec httpd -f -p 80 -h /"
"""A pod's command."""


@contextlib.contextmanager
def private_containerd(folder: Path, slot: int) -> Iterator[Containerd]:
    """Run it with the session's images; nothing of it may be left afterwards."""
    network = PodNetwork(f"tplown{slot}", f"10.216.{slot}.0/24")
    daemon = Containerd(ContainerdPlaces(folder / "own", folder / "own-run"), network, cgroup=f"/tempolet-own-{slot}")
    remove_leftovers(daemon)
    with daemon:
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon
    assert what_is_left(daemon) == []
    shutil.rmtree(daemon.places.root)  # it remembers the pods of a containerd that was killed


def what_is_left(daemon: Containerd) -> list[str]:
    """List what is left of an instance."""
    left = [f"shim {pid}" for pid in remains.shims_of(daemon.socket)]
    left += [f"process {pid}" for pid in remains.processes_in_cgroup(daemon.cgroup)]
    left += remains.mounts_below(daemon.places.root, daemon.places.run)
    left += [str(path) for path in remains.cgroup_directories(daemon.cgroup)]
    left += [str(path) for path in (Path("/sys/class/net") / daemon.network.bridge, daemon.socket) if path.exists()]
    left += [str(path) for path in CNI_CACHE.glob(f"{daemon.network.bridge}-*")]
    prefix = daemon.network.subnet.rpartition(".")[0]
    left += [line.strip() for line in rules() if daemon.network.bridge in line or f"{prefix}." in line]
    return left


def rules() -> list[str]:
    """List every rule of nftables, and of iptables where it is installed: its older form is not in nftables' list."""
    commands: list[list[str | Path]] = [[programs.find_program(programs.NFT), "list", "ruleset"]]
    if iptables := shutil.which("iptables", path=programs.search_path()):
        commands += [[iptables, "-w", "-t", table, "-S"] for table in ("raw", "nat", "filter")]
    listed = [subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in commands]
    return [line for text in listed for line in text.splitlines()]


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

    def listens() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((host, int(port))) == 0

    wait_until(listens, f"something listens at {address}")
    with urllib.request.urlopen(f"http://{address}/index.html", timeout=PATIENCE) as answer:
        body: bytes = answer.read()
    return body
