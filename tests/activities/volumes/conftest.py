"""A node, and one with a CSI driver, for the tests of this folder."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from activities.clients.csi_drivers import CsiDrivers
from activities.files import mounts
from activities.node_services import NodeServices
from tests.activities.volume_node import volume_services
from tests.activities.volumes.csi.csi_node import Node, NodeWithDriver
from tests.csi.orders import Setup


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Return a node with a driver; nothing of it stays mounted."""
    monkeypatch.setattr(CsiDrivers.get, "__defaults__", (timedelta(milliseconds=50),))
    async with NodeWithDriver(tmp_path, Setup()) as made:
        yield made


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[NodeServices]:
    """Return a node; whatever is left mounted is undone."""
    async with volume_services(tmp_path) as made:
        yield made
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point), detach=True)
