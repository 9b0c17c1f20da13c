"""The node of these tests, which is one of a session's cluster, and why they cannot run here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.plugins.plugin_node import KEYS, PluginNode, plugin_node
from tests.cluster.binaries import NoBinaries, no_control_plane
from tests.cluster.cluster_node import NewNode
from tests.cluster.conftest import new_node, node_ip, plane
from tests.cluster.dra.official_driver import find_driver
from tests.node.conftest import cannot_run
from tests.node.hardware.cpus import CPUS
from tests.node.hardware.numa_plugin import find_numa_plugin

__all__ = ["new_node", "node_ip", "plane"]  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it with a reason where it cannot run."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = (cannot_run() or no_control_plane() or _no_cpus()) if ours else ""
    for item in ours:
        item.add_marker("cluster")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def node(shared: PluginNode) -> Iterator[PluginNode]:
    """Leave no pod of a row that failed: it would have the only CPU for all rows after it."""
    yield shared
    shared.node.delete_all_pods()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, new_node: NewNode, slot: int) -> Iterator[PluginNode]:
    """Run a node with a device plugin and a DRA driver."""
    try:
        find_driver(), find_numa_plugin()
    except NoBinaries as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("p")
    with new_node(folder / "n", keys=KEYS) as made:
        made.until_started()
        with plugin_node(made, folder, f"tempolet{slot}.kills.k8s.io") as ours:
            yield ours


def _no_cpus() -> str:
    return "" if CPUS > 1 else "one CPU is reserved, and another one is given"
