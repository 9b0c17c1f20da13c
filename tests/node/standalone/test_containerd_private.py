"""Does a private containerd start with its images, run pods with host ports, and leave nothing behind?"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.cri.v1 import api_pb2 as cri
from tests.free_ports import free_ports
from tests.node.conftest import BUSYBOX
from tests.node.standalone.private_containerd import fetch, private_containerd, run_pod, what_is_left
from worker.standalone.containerd import CNI_CACHE, Containerd
from worker.standalone.containerd_config import PAUSE_IMAGE
from worker.standalone.cri_client import CriClient
from worker.standalone.machine.process import wait_for_end
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture
def own(slot: int, node_dir: Path) -> Iterator[Containerd]:
    """Return a containerd for this test, beside the session's."""
    with private_containerd(node_dir, slot) as daemon:
        yield daemon


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


def test_a_pod_has_a_loopback_without_the_plugin(own: Containerd) -> None:
    """It is set up by containerd: the plugin would have left its result in the cache."""
    sandbox, _ = run_pod(own, "web")
    with CriClient(own.socket) as runtime:
        asked = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
        pid = json.loads(runtime.runtime.PodSandboxStatus(asked).info["info"])["pid"]
    command = ["nsenter", "--net", "--target", str(pid), "ip", "-json", "address", "show", "lo"]
    (lo,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert "UP" in lo["flags"]
    assert "127.0.0.1" in {one["local"] for one in lo["addr_info"]}
    assert not list(CNI_CACHE.glob(f"cni-loopback-{sandbox}-*"))


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
