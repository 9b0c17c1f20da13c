"""A real containerd and a real Temporal for the tests of this folder, one of each a session, gone afterwards.

Every session takes a slot of its own (a lock file), and from its number bridge, subnet and cgroup, so that sessions and
a node started by `tempolet up` live beside each other.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.node import acting as on_containerd
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces, PodNetwork
from worker.standalone.machine import programs
from worker.standalone.temporal_server import TemporalPorts, TemporalServer, free_ports

BUSYBOX: Final = on_containerd.BUSYBOX
SLOTS: Final = 200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and leave it out with a reason where it cannot run."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = _cannot_run() if ours else ""
    for item in ours:
        item.add_marker("node")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def slot() -> Iterator[int]:
    """Take a number that no other session on this machine has."""
    for number in range(SLOTS):
        lock = Path(f"/run/lock/tempolet-test-{number}")
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            lock.unlink(missing_ok=True)
            return
    raise RuntimeError(f"all {SLOTS} slots for node tests are taken: look at /run/lock/tempolet-test-*")


@pytest.fixture(scope="session")
def node_dir() -> Iterator[Path]:
    """Give a short folder: a socket's path has 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="tpl.", dir="/tmp"))
    directory.chmod(0o711)  # a pod with users of its own must come to its root file system
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def containerd(slot: int, node_dir: Path) -> Iterator[Containerd]:
    """Start a private containerd with pause and busybox imported; `.socket`, `.endpoint`, `.cgroup` say where."""
    places = ContainerdPlaces(root=node_dir / "lib", run=node_dir / "run")
    network = PodNetwork(bridge=f"tpltest{slot}", subnet=f"10.214.{slot}.0/24")
    daemon = Containerd(places, network, cgroup=f"/tempolet-test-{slot}")
    daemon.clean()  # what a killed session of this slot left
    try:
        daemon.start()
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon
    finally:
        daemon.stop()


@pytest.fixture(scope="session")
def temporal(node_dir: Path) -> Iterator[TemporalServer]:
    """Start an embedded Temporal; `.address` and `.ui` say where."""
    grpc_port, ui_port = free_ports(2)
    server = TemporalServer(node_dir / "temporal", node_dir / "run", TemporalPorts(grpc_port, ui_port))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, temporal: TemporalServer
) -> Iterator[TempoletNode]:
    """Run one node for all lives of a file, whose crash loops wait a second at most; a file may have another of its own."""
    quick = {
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    }
    with TempoletNode(tmp_path_factory.mktemp("node"), containerd, temporal, keys=quick) as made:
        yield made


@pytest.fixture
async def acting(containerd: Containerd, tmp_path: Path) -> AsyncIterator[on_containerd.Acting]:
    """Give the activities on this containerd, with folders of the test's own."""
    async with on_containerd.acting_on(containerd, tmp_path) as made:
        yield made


def _cannot_run() -> str:
    if os.geteuid() != 0:
        return "needs root: containerd, mounts and network namespaces"
    try:
        for program in (programs.CONTAINERD, programs.RUNC, programs.CTR, programs.TEMPORAL):
            programs.find_program(program)
        programs.find_cni_plugins()
    except programs.MissingProgram as error:
        return str(error)
    return ""
