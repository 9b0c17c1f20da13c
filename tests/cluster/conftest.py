"""A real control plane for the session, and an address for its nodes; both removed afterwards."""

import contextlib
import io
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rich.console import Console

from activities.clients.api_server.kubeconfig import load_kubeconfig
from tests.cluster.binaries import (
    CONTROL_PLANE,
    KUBELET,
    OFFICIAL_TESTS,
    NoBinaries,
    can_be_had,
    find_binaries,
    no_control_plane,
)
from tests.cluster.cluster_node import ClusterNode, NewNode, node_address
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubectl import Kubectl
from tests.cluster.one_node import OneNode, cluster_number
from tests.cluster.peers.kubelet_node import KubeletNode
from tests.cluster.pods.kept_statuses import NODE, Watched, create
from tests.node.after_failure import pytest_runtest_call  # noqa: F401 - a hook, found by its name
from tests.node.conftest import cannot_run
from tests.node.hardware.numa_plugin import find_numa_plugin
from worker.standalone.containerd import Containerd
from worker.standalone.progress import Progress
from worker.standalone.temporal_server import TemporalServer

_FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it with a reason where it cannot run."""
    ours = [item for item in items if _FOLDER in item.path.parents]
    reason = _cannot_run() if ours else ""
    for item in ours:
        item.add_marker("cluster")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def kube_binaries(pytestconfig: pytest.Config) -> Path:
    """Return the folder of the programs, which are built first if they are missing."""
    every = (*CONTROL_PLANE, *OFFICIAL_TESTS)
    wanted = CONTROL_PLANE if can_be_had(every) else every
    return _found_or_built(pytestconfig, wanted, "Kubernetes' control plane and official tests with Go, once: about 7")


@pytest.fixture(scope="session")
def kubelet_program(pytestconfig: pytest.Config) -> Path:
    """Return the real kubelet, which is built first if it is missing."""
    if reason := can_be_had(KUBELET):
        pytest.skip(reason)
    return _found_or_built(pytestconfig, KUBELET, "the real kubelet with Go, once: about 2") / "kubelet"


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run etcd and kube-apiserver; the tests bind pods themselves."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as made:
        yield made


@pytest.fixture(scope="session")
def node_ip(slot: int) -> Iterator[str]:
    """Return an address for this session's nodes."""
    with node_address(f"tplnode{slot}", f"10.88.{slot}.1") as address:
        yield address


@pytest.fixture(scope="session")
def kubelet_node(kubelet_program: Path, plane: ControlPlane, node_ip: str, slot: int) -> KubeletNode:
    """Return a factory that runs the real kubelet as a node of the session's cluster."""
    return KubeletNode(kubelet_program, plane, node_ip, slot)


@pytest.fixture(scope="module")
def new_node(containerd: Containerd, temporal: TemporalServer, plane: ControlPlane, node_ip: str) -> NewNode:
    """Return a factory for nodes in a folder, in the session's cluster or the file's own."""
    return partial(ClusterNode, containerd=containerd, temporal=temporal, plane=plane, node_ip=node_ip)


@pytest.fixture(scope="module")
def cluster_node(tmp_path_factory: pytest.TempPathFactory, new_node: NewNode) -> Iterator[ClusterNode]:
    """Run one node of the session's cluster for all tests of a file."""
    with new_node(tmp_path_factory.mktemp("cluster-node")) as made:
        made.until_started()
        yield made


@pytest.fixture(scope="session")
def numa_program() -> Path:
    """Find the device plugin with NUMA nodes, which prefers its last device."""
    try:
        return find_numa_plugin()
    except NoBinaries as error:  # it names the program that cannot be built on this machine
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def one_node() -> Iterator[OneNode]:
    """Run a whole cluster with one node as `make cluster` does, with controllers and a scheduler, shared by all tests."""
    with cluster_number() as number:
        made = OneNode(Path(tempfile.mkdtemp(prefix="tplo.", dir="/tmp")), number)
        try:
            made.start(Progress(Console(file=io.StringIO())))
            yield made
        finally:
            made.stop(Progress(Console(file=io.StringIO())))


@pytest.fixture(scope="session")
def kubectl(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Return kubectl with an administrator's rights."""
    return Kubectl(plane.admin_kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
async def node_api(plane: ControlPlane) -> AsyncIterator[Watched]:
    """Return a client of the API server with the rights of the node of `kept_statuses`."""
    async with Watched(load_kubeconfig(plane.node_kubeconfig(NODE))) as api:
        api.asked = []
        yield api


@pytest.fixture
def bound_pod(plane: ControlPlane) -> Any:
    """Create a pod that is bound to that node, where nothing runs it."""
    return create(plane.api, f"kept-{uuid4().hex[:8]}")


def _found_or_built(config: pytest.Config, names: Sequence[str], what: str) -> Path:
    """Find programs; before building some, says how many minutes that takes."""
    try:
        return find_binaries(names, build=False)
    except NoBinaries:
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            print(f"\nbuilding {what} minutes", flush=True)
        return find_binaries(names)


def _cannot_run() -> str:
    return cannot_run() or no_control_plane()
