"""Does a node start without Temporal, and run its pods once Temporal comes, without another start of its processes?"""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proto.temporal.names import NAMESPACE
from tests.free_ports import free_ports
from tests.node.tempolet_node import TempoletNode, pod_manifest
from tests.patience import PATIENCE
from worker.standalone.containerd import Containerd
from worker.standalone.machine import programs
from worker.standalone.temporal_server import TemporalServer

POLLS_FAIL_WITHIN = 60.0
"""For so long the SDK's core repeats a poll that was refused."""


@pytest.fixture
def late(node_dir: Path, tmp_path: Path) -> Iterator[TemporalServer]:
    """Return a Temporal of this test's own, which is not started."""
    run = node_dir / f"late-{tmp_path.name[-8:]}"
    server = TemporalServer(tmp_path / "temporal", run, free_ports(1)[0])
    yield server
    server.stop()


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, late: TemporalServer) -> TempoletNode:
    """Return a node on that Temporal, whose processes are not started."""
    made = TempoletNode(tmp_path / "node", containerd, late)
    made.directory.mkdir()
    return made


@pytest.fixture
def notified(node_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Return the socket to which the node's processes notify systemd."""
    path = node_dir / "notify.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        yield listener
    path.unlink()


def received(listener: socket.socket) -> str:
    """Wait for one notification."""
    return listener.recv(4096).decode()


@contextmanager
def started(node: TempoletNode) -> Iterator[dict[str, int]]:
    """Start the node; yields the pids, which stay the same to the end."""
    with node:
        pids = {role: process.pid for role, process in node.processes.items()}
        yield pids
        assert {role: process.poll() for role, process in node.processes.items()} == dict.fromkeys(pids)


def test_pods_run_once_temporal_has_come(node: TempoletNode, late: TemporalServer, notified: socket.socket) -> None:
    """Worker and poller are ready without it, and say once what they wait for."""
    with started(node):
        node.apply(pod_manifest("web"))
        said = [next(line for line in iter(lambda: received(notified), "") if "READY=1" in line) for _ in node.roles]
        assert any("working for node" in line for line in said)
        assert any("1 pods listed" in line or "0 pods listed" in line for line in said)
        waits = f"waiting for Temporal at {late.address}: No such file or directory"
        for role in node.roles:
            node.until(lambda role=role: waits in node.log(role), f"the {role} waits")  # type: ignore[misc]  # the default binds it
        node.until(lambda: "following manifests" in node.log("poller"), "the poller goes on without it")
        late.start()
        node.until_running("web")
        assert [node.log(role).count(waits) for role in node.roles] == [1, 1]


def test_a_temporal_that_is_silent_is_one_that_is_away(node: TempoletNode, late: TemporalServer) -> None:
    """It accepts connections and does not answer (SIGSTOP)."""
    late.start()
    server = late.process.running()
    assert server is not None
    os.killpg(server.pid, signal.SIGSTOP)
    try:
        with started(node):
            node.apply(pod_manifest("web"))
            node.until(lambda: "following manifests" in node.log("poller"), "the poller goes on without it")
            os.killpg(server.pid, signal.SIGCONT)
            node.until_running("web")
    finally:
        os.killpg(server.pid, signal.SIGCONT)


def test_a_namespace_that_is_deleted_is_made_anew(node: TempoletNode, late: TemporalServer) -> None:
    """The same processes go on, and find the running pod; whether the SDK's worker has noticed is a matter of milliseconds."""
    late.start()
    node.keys["syncFrequency"] = "2s"
    with started(node):
        node.apply(pod_manifest("web"))
        before = node.until_running("web")
        delete_namespace(late)
        node.apply(pod_manifest("other"))
        node.until(
            lambda: (other := node.pod("other")) and other.ready, "another pod runs", POLLS_FAIL_WITHIN + PATIENCE
        )
        after = node.until_running("web")
        assert after.containers["main"].container_id == before.containers["main"].container_id
        node.take_away("web", "other")


def delete_namespace(temporal: TemporalServer) -> None:
    """Delete it as an operator does."""
    program = programs.find_program(programs.TEMPORAL, temporal.parts_dir)
    words = ["operator", "namespace", "delete", "--yes", "--namespace", NAMESPACE, "--address", temporal.address]
    subprocess.run([program, *words], check=True, capture_output=True, timeout=60)
