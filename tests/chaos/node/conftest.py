"""A session's containerd with a network plugin that faults reach, its stages, and why scenarios cannot run here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.node.cni_plugin import CniPlugin
from tests.chaos.node.stage import Session, Stages
from tests.cluster.binaries import no_control_plane
from tests.cluster.conftest import node_ip, plane
from tests.cluster.control_plane import ControlPlane
from tests.node.conftest import cannot_run
from worker.standalone.containerd import Containerd
from worker.standalone.machine import programs
from worker.standalone.temporal_server import TemporalServer

__all__ = ["node_ip", "plane"]  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every scenario of this folder, and skip it with a reason where it cannot run."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = cannot_run() if ours else ""
    for item in ours:
        item.add_marker("node")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cni(node_dir: Path, containerd: Containerd) -> Iterator[CniPlugin]:
    """Start the session's containerd again, with a folder of plugins of its own."""
    made = CniPlugin(node_dir / "cni", programs.find_cni_plugins(containerd.parts_dir))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "CNI_DIRECTORIES", (made.folder,))
        containerd.process.stop(within=10)
        containerd.start()
        yield made


@pytest.fixture(scope="module")
def stages(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    containerd: Containerd,
    temporal: TemporalServer,
    cni: CniPlugin,
) -> Iterator[Stages]:
    """Return the nodes on which the scenarios of a file play."""

    def cluster() -> tuple[ControlPlane, str]:
        if reason := no_control_plane():
            pytest.skip(reason)
        return request.getfixturevalue("plane"), request.getfixturevalue("node_ip")

    made = Stages(Session(containerd, temporal, cni, cluster), lambda: tmp_path_factory.mktemp("s"))
    yield made
    made.close()
