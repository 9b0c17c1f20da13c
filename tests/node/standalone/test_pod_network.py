"""Do host ports work by nftables and by iptables, go with their containerd, and open nothing of the node to pods?"""

import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from proto.cri.v1 import api_pb2 as cri
from tests.free_ports import free_ports
from tests.node.conftest import BUSYBOX
from tests.node.standalone.private_containerd import fetch, private_containerd, rules, run_pod, what_is_left
from worker.standalone.containerd import Containerd
from worker.standalone.cri_client import CriClient
from worker.standalone.machine import programs
from worker.standalone.machine.process import wait_for_end

ATTACK: Final = Path(__file__).with_name("loopback_attack.py")


@pytest.fixture(params=["nftables", "iptables", "old-plugin"])
def own(
    request: pytest.FixtureRequest, slot: int, node_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Containerd]:
    """Return a containerd with nftables, with iptables alone, or with both and a plugin that knows only iptables."""
    if request.param != "nftables" and not shutil.which("iptables", path=programs.search_path()):
        pytest.skip("this machine has no iptables")
    if request.param == "iptables":
        monkeypatch.setattr(Containerd, "_optional", lambda *_: None)
    if request.param == "old-plugin":
        monkeypatch.setattr(programs, "newest_cni_protocol", lambda _: (1, 0, 0))
    with private_containerd(node_dir, slot) as daemon:
        yield daemon


def test_host_ports_of_a_dead_containerd_are_removed(own: Containerd) -> None:
    """No CNI call removes them; the shared chains of the plugin go with the last host port."""
    (port,) = free_ports(1)
    run_pod(own, "web", host_port=port)
    assert fetch(f"127.0.0.1:{port}") == b"hello\n"
    identity = own.process.running()
    assert identity
    os.kill(identity.pid, signal.SIGKILL)
    assert wait_for_end(identity.pid, 10)
    assert any(f"dport {port}" in line for line in rules())
    own.stop()
    assert what_is_left(own) == []


def test_pods_reach_each_other(own: Containerd) -> None:
    """Also where something else, as Docker does, has made DROP the policy of what is forwarded."""
    _, address = run_pod(own, "web")
    sandbox, _ = run_pod(own, "client")
    assert in_pod(own, sandbox, "client", ["wget", "-qO-", f"http://{address}/index.html"]) == "hello\n"


def open_to_loopback(conf: Path) -> Iterator[str]:
    """Name the interfaces with route_localnet, but for bridges: other nodes have theirs on this machine, which come and go."""
    for one in conf.iterdir():
        with contextlib.suppress(FileNotFoundError):
            is_bridge = Path("/sys/class/net", one.name, "bridge").exists()
            if not is_bridge and (one / "route_localnet").read_text() != "0\n":
                yield one.name


def test_a_pod_reaches_nothing_on_the_nodes_loopback(own: Containerd) -> None:
    """CVE-2020-8558: a pod with NET_RAW, which it has by default, sends to 127.0.0.1 of the node, or from there."""
    sandbox, _ = run_pod(own, "web", host_port=free_ports(1)[0])
    bridge = own.network.bridge
    conf = Path("/proc/sys/net/ipv4/conf")
    assert list(open_to_loopback(conf)) == [], "a machine beside the node would reach its loopback by them"
    gateway = own.network.subnet.replace(".0/24", ".1")
    assert (conf / bridge / "route_localnet").read_text() == "1\n", "host ports need it"
    with udp("127.0.0.1") as victim, udp(gateway) as open_to_pods:
        address = Path(f"/sys/class/net/{bridge}/address").read_text().strip()
        ports = [str(one.getsockname()[1]) for one in (victim, open_to_pods)]
        python = str(Path(sys.executable).resolve())
        words = ["chroot", "/host", python, "-I", "-c", ATTACK.read_text(), address, gateway, *ports]
        said = in_pod(own, sandbox, "web", words)
        arrived = list(iter(lambda: open_to_pods.recv(100), b"ordinary"))
        victim.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            arrived.append(victim.recv(100))
        assert arrived == [], f"before what a pod may send: {said}"


@contextlib.contextmanager
def udp(address: str) -> Iterator[socket.socket]:
    """Listen at an address of the node."""
    with socket.socket(type=socket.SOCK_DGRAM) as listening:
        listening.bind((address, 0))
        listening.settimeout(30)
        yield listening


def in_pod(daemon: Containerd, sandbox: str, pod: str, command: list[str]) -> str:
    """Run a command in a pod, in a container with default capabilities and the node's files; returns its output."""
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=pod, uid=f"{pod}-uid", namespace="default"),
        linux=cri.LinuxPodSandboxConfig(cgroup_parent=f"{daemon.cgroup}/{pod}"),
    )
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="command"),
        image=cri.ImageSpec(image=BUSYBOX),
        command=["sleep", "3600"],
        mounts=[cri.Mount(container_path="/host", host_path="/", readonly=True)],
        linux=cri.LinuxContainerConfig(),
    )
    with CriClient(daemon.socket) as runtime:
        made = runtime.runtime.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        ).container_id
        runtime.runtime.StartContainer(cri.StartContainerRequest(container_id=made))
        done = runtime.runtime.ExecSync(cri.ExecSyncRequest(container_id=made, cmd=command, timeout=60))
        assert done.exit_code == 0, done.stderr.decode()
        return str(done.stdout.decode())
