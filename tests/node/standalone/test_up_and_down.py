"""Does `tempolet up` start a whole node, and does `tempolet down` leave nothing, whatever crashed before?"""

import dataclasses
import io
import os
import signal
import socket
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import read_snapshots
from tests.node.conftest import BUSYBOX
from tests.node.secrets.searched_files import content_of
from tests.node.standalone.standalone_node import POD, kill, manifest, pids, silent, standalone_node
from tests.waiting import wait_until
from worker.settings.flags import Flags
from worker.standalone.containerd import Containerd
from worker.standalone.cri_client import CriClient
from worker.standalone.down import DownFailed, down, what_is_left
from worker.standalone.given_configuration import read_given
from worker.standalone.progress import Progress
from worker.standalone.settings import Ports, Settings, recorded
from worker.standalone.up import UpFailed, up
from workflows.decide.cpus.state_file import STATE_FILE


@pytest.fixture
def node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Return the settings of a node that is not up yet; it is removed after the test."""
    with standalone_node(slot, node_dir) as settings:
        yield settings


def test_a_node_comes_up_is_found_again_and_goes(node: Settings, tmp_path: Path) -> None:
    """Up, up again, down, up again: the pod runs each time, with the same processes until down."""
    shown = Progress(Console(file=(output := io.StringIO()), width=200))
    up(node, [manifest(tmp_path, "web")], shown)
    first = pids(node)
    assert sorted(first) == ["containerd", "poller", "temporal", "worker"]
    assert [(pod.name, pod.phase, pod.ready) for pod in read_snapshots(node.root_dir)] == [("web-n1", "Running", True)]
    assert f"Temporal UI  {node.temporal.login}\n" in output.getvalue()
    assert stat.S_IMODE(node.temporal.database.stat().st_mode) == 0o600

    up(node, [], silent())
    assert pids(node) == first

    assert down(node, silent()) == []
    assert what_is_left(node) == []
    assert pids(node) == {}
    assert recorded(node.run_dir) is None

    up(node, [], silent())
    assert [(pod.name, pod.phase) for pod in read_snapshots(node.root_dir)] == [("web-n1", "Running")]


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("worker",), id="worker-killed"),
        pytest.param(("poller", "temporal"), id="poller-and-temporal-killed"),
        pytest.param(("containerd",), id="containerd-killed"),
        pytest.param(("worker", "poller", "temporal", "containerd"), id="all-killed"),
    ],
)
def test_down_leaves_nothing_after_a_crash(node: Settings, tmp_path: Path, victims: tuple[str, ...]) -> None:
    """What can't be stopped in order is removed by force, and reported."""
    up(node, [manifest(tmp_path, "web")], silent())
    kill(node, *victims)
    forced = down(node, silent())
    assert forced
    assert what_is_left(node) == []
    assert pids(node) == {}


def test_a_node_comes_up_while_temporal_is_silent(
    node: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, the processes are healthy, and the pod runs as soon as Temporal answers."""
    up(node, [], silent())
    temporal = node.temporal.process.running()
    assert temporal is not None
    kill(node, "worker", "poller")
    monkeypatch.setattr("worker.standalone.temporal_server.READY_WITHIN", timedelta(seconds=1))
    monkeypatch.setattr("worker.standalone.up.PODS_WITHIN", timedelta(seconds=1))
    shown = Progress(Console(file=(output := io.StringIO()), width=200))
    os.killpg(temporal.pid, signal.SIGSTOP)
    try:
        assert up(node, [manifest(tmp_path, "web")], shown) == ["web.yaml has no pod yet"]
    finally:
        os.killpg(temporal.pid, signal.SIGCONT)
    assert "does not answer yet, the node starts without it" in output.getvalue()
    wait_until(
        lambda: [(pod.name, pod.phase) for pod in read_snapshots(node.root_dir)] == [("web-n1", "Running")],
        "the pod runs",
    )


def test_a_node_comes_back_after_a_crash_of_everything(node: Settings, tmp_path: Path) -> None:
    """As after kill -9 of all four: `up` starts them again and waits for the actual pods, not for old snapshots."""
    up(node, [manifest(tmp_path, "web")], silent())
    first = pids(node)
    kill(node, "worker", "poller", "temporal", "containerd")
    up(node, [], silent())
    assert not set(first.values()) & set(pids(node).values())
    assert down(node, silent()) == []


def test_a_node_has_the_configuration_that_was_given(node: Settings, tmp_path: Path) -> None:
    """Worker and poller use it, and the worker its log rotation; other keys count as other settings."""
    file = tmp_path / "kubelet.yaml"
    keys = "containerLogMaxSize: 2Ki\ncontainerLogMaxFiles: 2\ncontainerLogMonitorInterval: 3s\n"
    file.write_text(f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{keys}")
    given = dataclasses.replace(node, given_configuration=read_given(Flags(config=file))[0])
    loud = POD.replace("sleep 3600 & wait", "while true; do echo 123456789 123456789; usleep 20000; done")
    up(given, [manifest(tmp_path, "loud", loud)], silent())
    wait_until(lambda: any(given.logs.glob("pods/*/main/0.log.*")), "its log is rotated")
    assert max(len(content_of(path)) for path in given.logs.glob("pods/*/main/0.log.*")) < 1024 * 1024
    up(given, [], silent())
    with pytest.raises(UpFailed, match=r"\(kubelet_configuration: .*containerLogMaxSize.*\): run `tempolet down`"):
        up(node, [], silent())


@pytest.mark.parametrize("healthz", [pytest.param(True, id="healthz"), pytest.param(False, id="none")])
def test_a_record_that_refuses_the_start_is_told(node: Settings, healthz: bool) -> None:
    """The worker ends a moment after its start; nobody takes it for healthy before."""
    if not healthz:
        node = dataclasses.replace(node, ports=Ports(node.ports.ui, worker_healthz=0, poller_healthz=0))
    node.root_dir.mkdir(parents=True)
    (node.root_dir / STATE_FILE).write_text("garbage")
    with pytest.raises(UpFailed, match=rf"(?s)the worker has ended.*{STATE_FILE}"):
        up(node, [], silent())


def test_purge_takes_the_whole_state_and_names_what_it_leaves(node: Settings) -> None:
    """A registry's address belongs to the node's state; unknown files are kept and listed."""
    registry = node.state_dir / "certs.d" / "127.0.0.1:5000"
    registry.mkdir(parents=True)
    (registry / "hosts.toml").write_text('server = "http://127.0.0.1:5000"\n')
    node.objects.mkdir()
    (node.state_dir / "notes").write_text("mine")
    shown = Progress(Console(file=(output := io.StringIO()), width=200))
    down(node, shown, purge=True)
    assert f"{node.state_dir} still has files that are not the node's: notes" in output.getvalue()
    assert [path.name for path in node.state_dir.iterdir()] == ["notes"]
    (node.state_dir / "notes").unlink()
    down(node, shown, purge=True)
    assert f"{node.state_dir} removed with all of the state" in output.getvalue()
    assert not node.state_dir.exists()


def test_down_says_where_it_looked(node: Settings) -> None:
    """It never says that a node running elsewhere is down."""
    shown = Progress(Console(file=(output := io.StringIO()), width=400))
    down(node, shown)
    said = output.getvalue()
    assert f"no node known at {node.run_dir}" in said
    assert "TEMPOLET_RUN_DIR" in said
    assert f"no state was in {node.state_dir}" in said


@pytest.mark.parametrize(
    ("port", "flag"),
    [
        pytest.param("ui", "--temporal-ui-port", id="ui"),
        pytest.param("worker_healthz", "--healthz-port", id="healthz"),
    ],
)
def test_a_taken_port_is_named(node: Settings, port: str, flag: str) -> None:
    """The message names the port and the flag."""
    number = getattr(node.ports, port)
    with socket.socket() as other:
        other.bind(("127.0.0.1", number))
        other.listen()
        with pytest.raises(UpFailed, match=rf"port {number} .* is taken .*{flag}"):
            up(node, [], silent())


def test_a_containerd_that_runs_already_is_used_and_left_alone(
    node: Settings, containerd: Containerd, tmp_path: Path
) -> None:
    """With its endpoint given, only this node's pods are removed; another pod and the images stay."""
    other = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="other", uid="other-uid", namespace="default"))
    with CriClient(containerd.socket) as runtime:
        request = cri.RunPodSandboxRequest(config=other)
        other_id = runtime.runtime.RunPodSandbox(request).pod_sandbox_id
        try:
            shared = dataclasses.replace(node, container_runtime_endpoint=containerd.endpoint)
            up(shared, [manifest(tmp_path, "web")], silent())
            assert {sandbox.metadata.name for sandbox in runtime.sandboxes()} >= {"other", "web-n1"}
            assert "containerd" not in pids(shared)
            kill(shared, "worker")  # so that its pod has to be removed by force
            down(shared, silent())
            assert other_id in {sandbox.id for sandbox in runtime.sandboxes()}
            assert "web-n1" not in {sandbox.metadata.name for sandbox in runtime.sandboxes()}
            assert runtime.has_image(BUSYBOX)
        finally:
            runtime.remove_sandboxes([other_id])


def test_root_is_asked_for(node: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root both commands fail before they change anything."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(UpFailed, match="needs root"):
            up(node, [], silent())
        with pytest.raises(DownFailed, match="needs root"):
            down(node, silent())
    assert not node.run_dir.exists()
